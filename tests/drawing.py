"""A Chromium that stays open, for tests that draw."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from threading import Thread
from typing import Any

from gpt2viz.export.chromium import LIMIT


class Open:
    """It draws as ``export.chromium.draw`` has a new one draw; its first picture starts it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._kaleido: Any = None

    async def _opened(self, browser: str | None) -> Any:
        import kaleido

        return await kaleido.Kaleido(n=1, mathjax=False, path=browser, timeout=LIMIT)

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT)

    def draw(
        self, figure: Mapping[str, Any], options: Mapping[str, Any], browser: str | None
    ) -> bytes:
        """A Plotly figure as a file's bytes; ``browser`` is the path of Chromium."""
        if self._kaleido is None:
            self._kaleido = self._wait(self._opened(browser))
        made: bytes = self._wait(self._kaleido.calc_fig(figure, opts=dict(options)))
        return made

    def close(self) -> None:
        """End Chromium, where it was needed."""
        if self._kaleido is not None:
            self._wait(self._kaleido.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()
