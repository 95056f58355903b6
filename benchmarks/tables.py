"""Tables of the browser's measurements, as in docs/benchmarks.md."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import gpt2viz
from benchmarks import browser
from benchmarks.peer_browser import LIMIT, PeerPages
from benchmarks.peers import FOLDER
from gpt2viz import settings
from tests.browser.conftest import running_app

OURS = "gpt2viz, Attention page, every head and a large one"

_DRAWN = "median s (min to max) | beside it | processor s, server + page | MB sent |"


def layers(lengths: Sequence[int], rounds: int, chromium: str, roots: Sequence[Path]) -> None:
    """Print how long each checkout takes to draw another layer, and what it sends."""
    print(f"\n| T | another layer of 12 heads | {_DRAWN}\n|---|---|---|---|---|---|")
    for n in lengths:
        result = browser.layer_changes(FOLDER, chromium, n, rounds, roots)
        for root, times in zip(roots, result, strict=True):
            _drawn(n, root.name, times, result[-1])


def maps(lengths: Sequence[int], rounds: int, chromium: str) -> None:
    """Print how long the map of every head takes after the text was run, and what is sent, for
    texts of some lengths, and for sentences in models from other packages."""
    print(f"\n| T | the map of every head | {_DRAWN}\n|---|---|---|---|---|---|")
    for n in lengths:
        texts = ["x " * (n // 2 - 1) + f"{number} " for number in range(rounds)]
        result = browser.maps(FOLDER, chromium, texts)
        _drawn(n, "144 heads, after the trace", result, result)
    for name in settings.packaged_models():
        result = browser.maps(name, chromium, browser.SENTENCES[:rounds])
        _drawn("a sentence", f"{name}, after the trace", result, result)


def _drawn(
    n: int | str, name: str, times: Sequence[browser.Drawn], beside: Sequence[browser.Drawn]
) -> None:
    """Print a row: wall time, its ratio to ``beside`` in the same round, processor time, and MB."""
    ratio = median(a.seconds / b.seconds for a, b in zip(times, beside, strict=True))
    work = " + ".join(
        f"{median(result):.2f}"
        for result in ([drawn.server for drawn in times], [drawn.page for drawn in times])
    )
    sent = max(drawn.megabytes for drawn in times)
    taken = spread([drawn.seconds for drawn in times])
    print(f"| {n} | {name} | {taken} | {ratio:.2f} | {work} | {sent:.2f} |", flush=True)


def openings(lengths: Sequence[int], rounds: int, chromium: str, roots: Sequence[Path]) -> None:
    """Print how long each checkout's first page takes from opening to its last picture."""
    print("\n| T | opened to drawn | median s (min to max) | beside it |\n|---|---|---|---|")
    with ExitStack() as stack:
        apps = [browser.checkout(root, FOLDER) for root in roots]
        addresses = [stack.enter_context(app) for app in apps]
        for address in addresses:
            browser.opening(address, FOLDER.name, "not counted", chromium)  # it loads the model
        for n in lengths:
            results: list[list[float]] = []
            for number in range(rounds):
                text = "x " * (n // 2 - 1) + f"{number} "
                opened = [browser.opening(a, FOLDER.name, text, chromium) for a in addresses]
                results.append([drawn.seconds for drawn in opened])
            _beside([f"{n} | {root.name}" for root in roots], results)


def _beside(names: Sequence[str], rounds: Sequence[Sequence[float]]) -> None:
    """Print a row for each name: its seconds in all rounds, and the ratio to the last name's."""
    for name, times in zip(names, zip(*rounds, strict=True), strict=True):
        ratios = [seconds / round_[-1] for seconds, round_ in zip(times, rounds, strict=True)]
        print(f"| {name} | {spread(times)} | {median(ratios):.2f} |", flush=True)


def first_drawings(lengths: Sequence[int], rounds: int, chromium: str) -> None:
    """Print how long the app's and the peers' pages take from opening to the last picture."""
    print("\n| T | page | opened to drawn: median s (min to max) | MB |")
    print("|---|---|---|---|")
    model = gpt2viz.load_model(FOLDER)
    with running_app(GPT2VIZ_MODELS=str(FOLDER)) as address:
        browser.opening(address, FOLDER.name, "not counted", chromium)  # the server loads the model
        for n in lengths:
            with tempfile.TemporaryDirectory() as folder:
                peers = PeerPages(model, "x " * (n // 2), Path(folder))
                _first_drawings(n, rounds, chromium, address, peers)


def _first_drawings(n: int, rounds: int, chromium: str, address: str, peers: PeerPages) -> None:
    times: dict[str, list[float]] = {}
    megabytes: dict[str, str] = {}
    timed_out: set[str] = set()
    for number in range(rounds):
        # Another text of the same length each time: the server has not run it yet.
        text = "x " * (n // 2 - 1) + f"{number} "
        ours = browser.opening(address, FOLDER.name, text, chromium)
        times.setdefault(OURS, []).append(ours.seconds)
        megabytes[OURS] = f"{ours.megabytes:.2f}, and {ours.app_megabytes:.1f} for the app itself"
        for name in peers.files:
            if name in timed_out:
                continue
            result = peers.open(name, chromium)
            megabytes[name] = f"{result.megabytes:.1f}"
            times.setdefault(name, [])
            if result.seconds is None:
                timed_out.add(name)
            else:
                times[name].append(result.seconds)
    for name, seconds in times.items():
        shown = f"not drawn within {LIMIT} s" if name in timed_out else spread(seconds)
        print(f"| {n} | {name} | {shown} | {megabytes[name]} |", flush=True)
    for name, reason in peers.absent.items():
        print(f"| {n} | {name} | absent: {reason} | |", flush=True)


def typing(chromium: str) -> None:
    """Print how long it takes from Enter to all heads, with the bundled model."""
    result = browser.sentences(chromium)
    print("\n| sentences | from Enter to all heads drawn: median s (min to max) | MB sent |")
    print("|---|---|---|")
    sent = max(drawn.megabytes for drawn in result)
    print(f"| {len(result)} | {spread([drawn.seconds for drawn in result])} | {sent:.2f} |")


def starting(rounds: int, chromium: str, roots: Sequence[Path]) -> None:
    """Print how long it takes from starting each checkout's app to its first picture."""
    alone, results = [], []
    for _ in range(rounds):
        alone.append(browser.torch_import())
        results.append([browser.start(chromium, root) for root in roots])
    print("\n| since the start of the process | median s (min to max) | beside it |")
    print("|---|---|---|")
    for n, what in enumerate(("the server answers", "first picture", "last picture")):
        _beside(
            [f"{root.name}: {what}" for root in roots], [[o[n] for o in row] for row in results]
        )
    print(f"| for comparison: `import torch` alone, in a process of its own | {spread(alone)} | |")


def spread(seconds: Sequence[float]) -> str:
    """The median, smallest and largest, in Markdown."""
    return f"**{median(seconds):.2f}** ({min(seconds):.2f} to {max(seconds):.2f})"
