"""Downloads that go on while a visitor looks at other pages; one of each model for all."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event, Thread

import streamlit as st

from gpt2viz import GPT2VizError
from gpt2viz.app import run_cache
from gpt2viz.model import hub


@dataclass(eq=False)
class Download:
    """One model on its way. ``here`` are the bytes that came; ``error`` says why it ended early."""

    offer: hub.Offer
    here: int = 0
    ended: bool = False
    error: str = ""
    stop: Event = field(default_factory=Event)

    def run(self) -> None:
        """Fetch it; for a thread of its own."""
        try:
            hub.fetch(self.offer, self._tell, self.stop.is_set)
        except GPT2VizError as error:
            self.error = str(error)
        except Exception as error:  # else the page would wait for a thread that is gone
            self.error = f"{type(error).__name__}: {error}"
        finally:
            run_cache.from_hub.clear()
            self.ended = True

    def _tell(self, here: int) -> None:
        self.here = here


@st.cache_resource
def downloads() -> dict[str, Download]:
    """Name -> the last download of that model, for all visitors."""
    return {}


def start(offer: hub.Offer) -> None:
    """Begin a download, or go on with one, unless it is on its way already."""
    current = downloads().get(offer.name)
    if current is None or current.ended:
        downloads()[offer.name] = download = Download(offer, offer.here)
        Thread(target=download.run, daemon=True).start()
