"""A head that copies, opened on a sentence in which nothing comes twice."""

from __future__ import annotations

import re

import pytest

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import open_page
from tests.bundled import TWICE, back, copiers_of, itself
from tests.numpy_gpt2 import reference

COPIES, COPIES_TOO, *_ = copiers_of(TWICE)
COPIES_NOT = itself()


@pytest.mark.parametrize(("layer", "head"), [COPIES, COPIES_TOO])
def test_the_sentence_said_twice_is_offered_and_copied_there(layer: int, head: int) -> None:
    at = open_page("head", text="A crane ate fish", layer=str(layer), head=str(head))
    (said,) = [c.value for c in at.caption if "nothing comes twice" in c.value]
    (button,) = [b for b in at.button if b.label == "Say it twice"]
    button.click().run()
    assert at.text_input(key="text").value == TWICE
    tokenizer = gpt2viz.load_model().tokenizer
    ids = tokenizer.encode(TWICE)
    query, key = at.session_state["query"], at.session_state["key"]
    row = reference(BUNDLED, ids, True)["weights"][layer][head][query]
    assert row.argmax() == key
    assert ids[key - 1] == ids[query], "what followed the same token"
    asks, copied = (tokenizer.decode([ids[n]]).replace(" ", "·") for n in (query, key))
    assert f"“{asks}” looks at what followed it before: “{copied}” ({row.max():.2f})." in said
    assert (at.session_state["layer"], at.session_state["head"]) == (layer, head)
    assert not any("nothing comes twice" in c.value for c in at.caption)


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (back(), "a b"),  # on so short a text said twice, one token back looks the same
        (COPIES_NOT, "A crane ate fish"),
        (COPIES, "the cat saw the cat"),
        (COPIES, "A"),
    ],
)
def test_it_is_not_offered_elsewhere(head: tuple[int, int], text: str) -> None:
    at = open_page("head", text=text, layer=str(head[0]), head=str(head[1]))
    assert not [b for b in at.button if b.label == "Say it twice"]
    assert not re.search("copies, but", " ".join(c.value for c in at.caption))
