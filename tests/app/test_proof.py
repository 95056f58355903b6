"""Each page that shows a head says how far its weights are from what the model did."""

from __future__ import annotations

import re

import pytest

import gpt2viz
from gpt2viz.traces import Array
from tests.app.pages import open_page, plain

PAGES = ("attention", "inside", "compare", "mask", "whatif")


def difference(page: str, text: str) -> float:
    at = open_page(page, text=text, layer="1", layers="0,1", causal="true")
    said = plain(" ".join(block.value for block in at.caption))
    found = re.search(r"added to the stream by at most \*\*([\d.e+-]+)\*\*", said)
    assert found, said
    return float(found[1])


@pytest.mark.parametrize("page", PAGES)
def test_the_difference_is_small(page: str) -> None:
    assert 0 <= difference(page, "A crane lifted fish") < 1e-3


@pytest.mark.parametrize("page", PAGES)
def test_wrong_weights_are_told(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = gpt2viz.Trace.stage

    def wrong(
        run: gpt2viz.Trace, key: str, layer: int | None = None, head: int | None = None
    ) -> Array:
        found = right(run, key, layer, head)
        return found[..., ::-1] if key == "weights" else found

    monkeypatch.setattr(gpt2viz.Trace, "stage", wrong)
    assert difference(page, f"A crane lifted {page}") > 0.01
