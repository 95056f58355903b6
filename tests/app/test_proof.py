"""Each page that shows a head says how far its weights are from what the model did."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import gpt2viz
from gpt2viz.arrays import Array
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import open_page, plain
from tests.numpy_gpt2 import reference

#: The layers whose weights a page shows.
PAGES = {
    "attention": (0, 1, 2, 3),  # a head of any can be chosen
    "head": (1,),
    "side_by_side": (0, 1),
    "side_by_side?differs=mask": (1,),
    "what_if": (1,),
}
TEXT = "A crane lifted fish"


def proof(page: str, text: str) -> tuple[float, float]:
    """The largest difference, and the largest number of what attention added."""
    at = open_page(page, text=text, layer="1", layers="0,1", causal="true")
    ((mark, tip),) = [(c.value, plain(c.help)) for c in at.caption if "times V" in (c.help or "")]
    found = re.search(r"Largest difference: (\w+)(?: · 10(\S+))?; largest number: (\S+)\.$", tip)
    assert found, tip
    raised = (found[2] or "0").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    difference, largest = float(found[1].replace("none", "0") + f"e{raised}"), float(found[3])
    assert mark == ("✓ checked" if difference < 1e-3 else "✗ **not what the model computed**")
    return difference, largest


@pytest.mark.parametrize("page", PAGES)
def test_the_difference_is_small_beside_what_attention_added(page: str) -> None:
    difference, largest = proof(page, TEXT)
    assert 0 <= difference < 1e-3
    ids = gpt2viz.load_model().tokenizer.encode(TEXT)
    added = np.array(reference(BUNDLED, ids, causal=True)["attention_output"])  # (n_layer, T, C)
    assert largest == pytest.approx(np.abs(added[[*PAGES[page]]]).max(), rel=5e-3)


@pytest.mark.parametrize("page", PAGES)
def test_wrong_weights_are_told(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = gpt2viz.Trace.stage

    def wrong(
        run: gpt2viz.Trace, key: Any, layer: int | None = None, head: int | None = None
    ) -> Array:
        found = right(run, key, layer, head)
        return found[..., ::-1] if key == "weights" else found

    monkeypatch.setattr(gpt2viz.Trace, "stage", wrong)
    assert proof(page, f"A crane lifted {page}")[0] > 0.01


def test_what_an_earlier_run_had_is_said() -> None:
    """The numbers are checked all the same: see ``tests/run/test_prefix.py`` for what they are."""
    text = "The crane stood by the water and"
    n = len(gpt2viz.load_model().tokenizer.encode(text))
    said = f"The numbers of {n} tokens at the start are those of an earlier run"
    assert proof("attention", text)[0] < 1e-3
    again = open_page("attention", text=f"{text} fish")
    (tip,) = [plain(c.help) for c in again.caption if "times V" in (c.help or "")]
    assert said in tip
    assert proof("attention", f"{text} fish")[0] < 1e-3
    shapes = open_page("shapes", text=f"{text} fish")
    words = [plain(markdown.value) for markdown in shapes.markdown]
    assert any(
        said in word and word.endswith("The table is that of a run of all.") for word in words
    )
