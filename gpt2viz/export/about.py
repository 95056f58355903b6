"""The origin of a saved file's numbers: model, text, layer, head, mask, edits and version."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from gpt2viz import __version__
from gpt2viz.labels import escape_controls
from gpt2viz.run.trace import Trace

#: The number of characters of the text, and of a picture's title, in a file's name.
_TEXT, _WHAT = 32, 60
#: The length of text in a caption under a picture; the metadata have all of it.
CAPTION = 90


@dataclass(frozen=True)
class About:
    """The origin of numbers. ``what`` names them, such as "weights" or "All heads of layer 1".

    ``layer`` and ``head`` count from 0, and are None if the file holds no single one.
    ``sha256`` is the checksum of the model's weights, "" if unknown; ``causal`` is None
    for runs with the mask on and off; ``edits`` are the changes to the run in their short form,
    ``patch_from`` the text that its patches copied from, ``mean_over`` the texts that its means
    are over, "" for our own.
    """

    what: str
    model: str = ""
    sha256: str = ""
    text: str = ""
    n_tokens: int = 0
    layer: int | None = None
    head: int | None = None
    causal: bool | None = True
    edits: str = ""
    patch_from: str = ""
    mean_over: str = ""
    version: str = __version__

    @property
    def location(self) -> str:
        """The layer and head in words: "layer 1, head 0", or as much of it as is set."""
        parts = [("layer", self.layer), ("head", self.head)]
        return ", ".join(f"{name} {n}" for name, n in parts if n is not None)

    @property
    def mask(self) -> str:
        """The causal mask in words: "on", "off" or "on and off"."""
        return {True: "on", False: "off", None: "on and off"}[self.causal]

    @property
    def title(self) -> str:
        """The file's content, in a few words."""
        return f"{self.what}, {self.location}" if self.location else self.what

    @property
    def source(self) -> str:
        """Model, mask, edits, version and the beginning of the text, in one line."""
        checksums = " / ".join(checksum[:12] for checksum in self.sha256.split(" / "))
        parts = [
            f"“{_cut(self.text)}”" if self.text else "",
            f"model {self.model}" if self.model else "",
            f"sha256 {checksums}" if checksums else "",
            f"causal mask {self.mask}" if self.text else "",
            f"edits {self.edits}" if self.edits else "",
            f"means over {self.mean_over}" if self.mean_over else "",
            f"patched from “{_cut(self.patch_from)}”" if self.patch_from else "",
            f"gpt2viz {self.version}",
        ]
        return " · ".join(part for part in parts if part)

    @property
    def caption(self) -> tuple[str, str]:
        """Title and source, for lines below a picture; the version isn't broken across lines."""
        unbroken = self.source.replace("gpt2viz ", "gpt2viz\u00a0")
        return self.title, unbroken.replace(" · ", "\u00a0· ")

    def as_json(self) -> str:
        """All of it as a JSON object, for a file's metadata."""
        return json.dumps(asdict(self), ensure_ascii=False)


def about(trace: Trace, what: str, layer: int | None = None, head: int | None = None) -> About:
    """The origin of numbers of a trace. Reads the model's files for their checksum."""
    return About(
        what=what,
        model=trace.model_name,
        sha256=trace.weight_files.sha256 if trace.weight_files else "",
        text=trace.text,
        n_tokens=len(trace.token_ids),
        layer=layer,
        head=head,
        causal=trace.causal,
        edits=",".join(map(str, trace.edits)),
        patch_from=trace.patch_text,
        mean_over=trace.mean_over,
    )


def about_runs(traces: Sequence[Trace], what: str) -> About:
    """The origin of numbers of several runs together: every text, model and edit."""
    abouts = [about(trace, what) for trace in traces]
    if not abouts:
        return About(what)
    joined: dict[str, Any] = {
        name: " / ".join(filter(None, dict.fromkeys(getattr(run, name) for run in abouts)))
        for name in ("model", "sha256", "text", "edits", "patch_from", "mean_over")
    }
    return replace(
        abouts[0],
        n_tokens=max(run.n_tokens for run in abouts),
        causal=abouts[0].causal if len({run.causal for run in abouts}) == 1 else None,
        **joined,
    )


def file_name(about: About, suffix: str) -> str:
    """A name that describes the file: ``gpt2viz_stories_A-crane_L1H0_weights_causal.svg``.

    Only ASCII letters, digits, ``-``, ``_`` and ``.``, and at most 150 of them, so that every
    system accepts it. A text without any of them is named by the first digits of its SHA-256.
    """
    indices = "".join(
        f"{letter}{n}" for letter, n in (("L", about.layer), ("H", about.head)) if n is not None
    )
    what = re.sub(r"\blayer (\d+), head (\d+)", r"L\1H\2", about.what)
    what = re.sub(r"\b([lL]ayer|[hH]ead) (\d+)", lambda m: f"{m[1][0].upper()}{m[2]}", what)
    text = _plain(about.text, _TEXT)
    if about.text and not text:
        text = f"text-{hashlib.sha256(about.text.encode()).hexdigest()[:8]}"
    mask = {True: "causal", False: "no-mask", None: "masks"}[about.causal] if about.text else ""
    edits = "edited" if about.edits else ""
    parts = ["gpt2viz", _plain(about.model, 30), text, indices, _plain(what, _WHAT), mask, edits]
    return f"{'_'.join(part for part in parts if part)}.{suffix}"


def _cut(text: str) -> str:
    """The beginning of a text, or of two, on one line, with their control characters escaped."""
    cut = (t if len(t) <= CAPTION else f"{t[: CAPTION - 1]}…" for t in text.split(" / ", 1))
    return escape_controls(" ".join(" / ".join(cut).split()))


def _plain(text: str, longest: int) -> str:
    """A text's ASCII letters and digits, joined by single hyphens, cut at a hyphen if possible."""
    latin = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.sub(r"\.+", ".", re.sub(r"[^A-Za-z0-9.]+", "-", latin)).strip("-.")
    if len(words) > longest:
        words = words[: longest + 1].rpartition("-")[0] or words[:longest]
    return words.strip("-.")
