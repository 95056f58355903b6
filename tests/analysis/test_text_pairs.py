"""A second text for a first one: tests/analysis/test_families.py has its numbers."""

from __future__ import annotations

import pytest

import gpt2viz
from gpt2viz.analysis.text_pairs import one_token_changed


@pytest.mark.slow
def test_it_is_read_as_the_same_number_of_tokens(
    model: gpt2viz.Model, subtests: pytest.Subtests
) -> None:
    for text in (
        "A",
        "An odd “€” ☃\n\n",
        "twenty-one twenty-two",
        " the" * 200,
        "zzzzz zzzzz",
        "xyzzy xyzzy",
    ):
        with subtests.test(text=text):
            ids = model.tokenizer.encode(text)
            result = one_token_changed(model, gpt2viz.trace(model, ids))
            assert result is not None
            assert model.tokenizer.encode(model.tokenizer.decode(result)) == result
            assert sum(a != b for a, b in zip(ids, result, strict=True)) == 1
