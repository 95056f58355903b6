"""A head that copies, opened on a sentence in which nothing comes twice."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import open_page
from tests.mutants import Mutant
from tests.numpy_gpt2 import reference


def probe_score(layer: int, head: int) -> float:
    """How much of its weight the head gives to what followed, on fifty random tokens said twice."""
    half = np.random.default_rng(0).choice(5120, 50, replace=False)
    weights = reference(BUNDLED, [*half, *half], True)["weights"][layer][head]
    return float(np.mean([weights[t, t - 49] for t in range(50, 100)]))


@pytest.mark.parametrize("head", [0, 2, 3, 4, 5])
def test_the_sentence_said_twice_is_offered_and_copied_there(head: int) -> None:
    assert probe_score(1, head) > 0.5
    at = open_page("head", text="A crane ate fish", layer="1", head=str(head))
    (said,) = [c.value for c in at.caption if "nothing comes twice" in c.value]
    (button,) = [b for b in at.button if b.label == "Say it twice"]
    button.click().run()
    assert at.text_input(key="text").value == "A crane ate fish A crane ate fish"
    tokenizer = gpt2viz.load_model().tokenizer
    ids = tokenizer.encode("A crane ate fish A crane ate fish")
    query, key = at.session_state["query"], at.session_state["key"]
    row = reference(BUNDLED, ids, True)["weights"][1][head][query]
    assert row.argmax() == key
    assert ids[key - 1] == ids[query], "what followed the same token"
    asks, copied = (tokenizer.decode([ids[n]]).replace(" ", "·") for n in (query, key))
    assert f"“{asks}” looks at what followed it before: “{copied}” ({row.max():.2f})." in said
    assert (at.session_state["layer"], at.session_state["head"]) == (1, head)
    assert not any("nothing comes twice" in c.value for c in at.caption)


@pytest.mark.parametrize(
    ("layer", "head", "text"),
    [
        ("0", "0", "a b"),  # looks one back, which on so short a text said twice looks the same
        ("2", "4", "A crane ate fish"),
        ("1", "4", "the cat saw the cat"),
        ("1", "4", "A"),
    ],
)
def test_it_is_not_offered_elsewhere(layer: str, head: str, text: str) -> None:
    at = open_page("head", text=text, layer=layer, head=head)
    assert not [b for b in at.button if b.label == "Say it twice"]
    assert not re.search("copies, but", " ".join(c.value for c in at.caption))


#: Faults that these tests notice: see ``tests.mutants``.
MUTANTS = (
    Mutant(
        "any head is said to copy",
        "app/views/copying.py",
        '["induction"][layer, head] < _COPIES',
        '["induction"][layer, head] < 0',
        "test_it_is_not_offered_elsewhere",
    ),
    Mutant(
        "a copy is shown at another token",
        "app/views/copying.py",
        "address.put(parameters.QUERY, found.query)",
        "address.put(parameters.QUERY, found.key)",
        "test_the_sentence_said_twice_is_offered_and_copied_there",
    ),
)
