"""BertViz's, CircuitsVis' and our pages in Chromium: the time from opening to the last picture."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from playwright.sync_api import Route, TimeoutError

import gpt2viz
from benchmarks.peers import DRAWING, ROOT, AbsentError, python_of, run, scripts
from benchmarks.watch import fresh_page, times, wait_until_quiet, watch

#: Seconds; "not drawn" within them is a result, too.
LIMIT = 45
#: More seconds, for Chromium to start and to be quiet for a second.
GRACE = 10
#: BertViz writes every weight as text: 1,024 tokens would be 4 GB.
LONGEST_PEER = 256

#: The name of ``gpt2viz.show``'s file in the tables.
SHOWN = "gpt2viz.show, 144 heads and a large one"

#: Conditions in JavaScript for a drawn page: all its lines, or all its canvases.
_LINES = "document.querySelectorAll('line').length >= {heads} * {n} * {n}"
_CANVASES = "document.querySelectorAll('canvas').length > 12"
_DRAWN: Mapping[str, str] = {
    "gpt2viz_show": "document.querySelector('.tiles')?.p && document.querySelector('.map')?.p",
    "bertviz_head_view": _LINES.replace("{heads}", "12"),
    "bertviz_head_view_layers": _LINES.replace("{heads}", "12"),
    "bertviz_model_view": _LINES.replace("{heads}", "144"),
    "circuitsvis_heads": _CANVASES,
    "circuitsvis_patterns": _CANVASES,
}


class Opened(NamedTuple):
    """Seconds from the start of the navigation to the last picture, and megabytes read."""

    seconds: float | None
    megabytes: float


class PeerPages:
    """The HTML files of ``gpt2viz.show`` and of every installable peer, made from the same run.

    For a text longer than ``LONGEST_PEER``, only our own.
    """

    def __init__(self, model: gpt2viz.Model, text: str, folder: Path) -> None:
        self.n_tokens = len(model.tokenizer.encode(text))
        self.absent: dict[str, str] = {}
        self.files: dict[str, Path] = {}
        self._contenders: dict[str, str] = {}
        trace = gpt2viz.trace(model, text)
        self.files[SHOWN] = gpt2viz.show(trace, layers=[5]).save(folder / "gpt2viz_show.html")
        self._contenders[SHOWN] = "gpt2viz_show"
        if self.n_tokens > LONGEST_PEER:
            return
        weights, tokens = folder / "weights.npy", folder / "tokens.json"
        _write_run(trace, weights, tokens)
        program = str(ROOT / "benchmarks" / "peer_pages.py")
        for environment, peer in DRAWING.items():
            try:
                python = str(python_of(environment))
                for name, contender in peer.contenders.items():
                    out = folder / f"{contender}.html"
                    run([python, program, contender, str(weights), str(tokens), str(out)])
                    self.files[name] = out
                    self._contenders[name] = contender
            except AbsentError as reason:
                self.absent[environment] = str(reason)

    def open(self, name: str, chromium: str) -> Opened:
        """Open a page from its file and wait until it is drawn, at most ``LIMIT`` seconds."""
        file = self.files[name]
        drawn = _DRAWN[self._contenders[name]].replace("{n}", str(self.n_tokens))
        seconds = _in_time([sys.executable, "-m", __name__, str(file), drawn, chromium])
        return Opened(seconds, file.stat().st_size / 1e6)


def _in_time(command: list[str]) -> float | None:
    """The seconds that a process prints, or None if it takes, or prints, more than ``LIMIT``.

    Playwright's own timeouts don't work while a page's script keeps Chromium busy.
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen(  # noqa: S603
        command, stdout=pipe, text=True, cwd=ROOT, start_new_session=True
    )
    try:
        text, _ = process.communicate(timeout=LIMIT + GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return float(text) if text and float(text) <= LIMIT else None


def main() -> None:
    """Open a file in Chromium and print the seconds until it is drawn."""
    file, drawn, chromium = sys.argv[1:]
    with fresh_page(chromium) as page:
        page.route(lambda address: not address.startswith("file:"), _answer)
        watch(page, plots=False)
        with suppress(TimeoutError):  # then nothing is printed
            page.goto(Path(file).as_uri(), wait_until="commit", timeout=1000 * LIMIT)
            wait_until_quiet(page, drawn, LIMIT)
            result = times(page)
            print(result.last - result.opened)


def _write_run(trace: gpt2viz.Trace, weights: Path, tokens: Path) -> None:
    layers = [trace.stage("weights", layer) for layer in range(trace.config.n_layer)]
    np.save(weights, np.concatenate(layers))
    tokens.write_text(json.dumps(trace.tokens), encoding="utf-8")


def _answer(route: Route) -> None:
    """Answer a page's request for a known script; abort any other."""
    result = scripts().get(route.request.url.split("/")[-1])
    if result is None:
        route.abort()
        return
    anyone = {"Access-Control-Allow-Origin": "*"}
    route.fulfill(path=result, content_type="text/javascript", headers=anyone)


if __name__ == "__main__":
    main()
