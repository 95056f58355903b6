"""A watched model as a picture: texts, generation, beams, batches and labels of tokens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import gpt2viz
from tests.notebook.test_show import decoded, weights
from tests.run.test_watch import (
    CROSS,
    GREEDY,
    IDS,
    MASKS,
    SELF,
    check,
    eager,
    llava,
    make_model,
    with_positions,
)

CHARACTERS = SimpleNamespace(decode=lambda ids: chr(97 + ids[0] % 26))


def labels(ids: torch.Tensor) -> list[str]:
    return [f"{n} {chr(97 + int(token) % 26)}" for n, token in enumerate(ids)]


def test_generated_tokens_are_in_one_picture() -> None:
    model, mask = make_model("Gemma3"), MASKS["left"]
    options = {**GREEDY, "return_dict_in_generate": True}
    with gpt2viz.watch(model) as run:
        output = model.generate(IDS, attention_mask=mask, **options)
    whole = torch.cat([mask, torch.ones(2, 5, dtype=torch.int64)], 1)
    expected = eager(model, input_ids=output.sequences[:, :-1], **with_positions(whole)).attentions
    for ids in (output, output.sequences):
        view = gpt2viz.show(run, CHARACTERS, ids, text=1)
        seen = np.stack(decoded(view.html()))[:, :, 3:]
        np.testing.assert_allclose(seen, [layer[1, :, 3:] for layer in expected], atol=1e-5)
        assert view.about["queries"] == view.about["keys"] == labels(output.sequences[1, :-1])
    scores = np.stack(decoded(gpt2viz.show(run, text=0, stage="masked_scores").html()))
    np.testing.assert_allclose(scores[1], run.scores(1)[0], atol=1e-5)
    assert np.isneginf(scores[0][:, 11, :7]).all()  # before the window
    with pytest.raises(
        gpt2viz.AttentionError, match="has weights and masked_scores, and no stage 'scores'"
    ):
        gpt2viz.show(run, stage="scores", text=0)
    with pytest.raises(gpt2viz.AttentionError, match="of 2 texts, and 1 is shown at a time"):
        gpt2viz.show(run)


def test_beams_of_two_texts() -> None:
    model, inputs = make_model("T5"), {"input_ids": IDS, "attention_mask": MASKS["right"]}
    options = {"num_beams": 3, "return_dict_in_generate": True, "output_scores": True}
    with gpt2viz.watch(model) as run:
        output = model.generate(**inputs, max_new_tokens=9, **options)
    for part, ids, keys in (
        (SELF, output, output.sequences[1, :-1]),
        (CROSS, (output, IDS), IDS[1]),
    ):
        view = gpt2viz.show(run, CHARACTERS, ids, text=1, part=part)
        expected = [run.weights(n, part=part, beams=output.beam_indices)[1] for n in (0, 1)]
        np.testing.assert_array_equal(decoded(view.html()), expected)
        assert view.about["queries"] == labels(output.sequences[1, :-1])
        assert view.about["keys"] == labels(keys)


def test_notes_list_what_is_left_out() -> None:
    model = make_model("Llama")
    with torch.no_grad(), gpt2viz.watch(model, layers=[1], heads=[3, 1]) as run:
        model(IDS[:1])
    notes = " ".join(gpt2viz.show(run).notes)
    assert "Of the model's layers only [1] are kept. Of the model's heads only [3, 1] are" in notes
    nbytes = 2 * run.nbytes * 2 + 100  # the prompt, and not much more
    with gpt2viz.watch(model, max_bytes=nbytes) as run:
        output = model.generate(IDS[:1], **GREEDY)
    view = gpt2viz.show(run, CHARACTERS, output)
    assert "the rest is left out" in " ".join(view.notes)


def test_a_processor_finds_the_image_patches() -> None:
    model, image = llava(), np.zeros((8, 8, 3), np.uint8)
    ids, pixels = torch.tensor([[3, *[59] * 16, 5, 6, 7]]), torch.randn(1, 3, 16, 16)
    with gpt2viz.watch(model) as run:
        ids = model.generate(input_ids=ids, pixel_values=pixels, **GREEDY)
    output = eager(model, input_ids=ids[:, :-1], pixel_values=pixels)
    check(run, output.attentions, part="language")
    processor = SimpleNamespace(decode=CHARACTERS.decode, image_token_id=59)
    for part, query in (("language", 24), ("vision", 0)):
        named = (processor, ids) if part == "language" else ()
        shown = gpt2viz.show(run, *named, part=part, image=image).about["picture"]
        assert (shown["keys"], shown["query"]) == (list(range(1, 17)), query)
        assert (shown["rows"], shown["columns"], shown["width"]) == (4, 4, 8)
    with pytest.raises(gpt2viz.AttentionError, match="16 keys aren't 3 × 4 patches"):
        gpt2viz.show(run, processor, ids, part="language", image=image, grid=(3, 4))
    with pytest.raises(gpt2viz.AttentionError, match="image can't be read: give a path"):
        gpt2viz.show(run, part="vision", image="none.png")


TOKENS: dict[str, tuple[list[Any], list[str]]] = {
    "bytes": (["The", "Ġcat", "Ã", "¼", "ĊĊ"], ["The", "·cat", r"\xc3", r"\xbc", r"\n\n"]),
    "bytes without a space": (["Ã¼", "ber", "!"], ["ü", "ber", "!"]),
    "letters": (["é", "t", "é", "ü"], ["é", "t", "é", "ü"]),
    "SentencePiece": (["<s>", "▁cat", "<0xC3>", "▁▁"], ["<s>", "·cat", r"\xc3", "··"]),
    "special tokens": (["<｜begin▁of▁x｜>", "ĠÃ¼", "Ġe"], ["<｜begin▁of▁x｜>", "·ü", "·e"]),
    "WordPiece": (["[CLS]", "cat", "##s"], ["[CLS]", "cat", "##s"]),
}


def test_vocabulary_entries_are_decoded_to_labels(subtests: pytest.Subtests) -> None:
    for case, (tokens, expected) in TOKENS.items():
        with subtests.test(case=case):
            n = len(tokens)
            named = SimpleNamespace(
                decode=lambda ids: "\ufffd",
                convert_ids_to_tokens=lambda n: tokens[n],  # noqa: B023
            )
            for arguments in ((tokens,), (named, list(range(n)))):
                view = gpt2viz.show(weights(n, n), *arguments)
                assert view.about["keys"] == [f"{n} {name}" for n, name in enumerate(expected)]
    view = gpt2viz.show(weights(2, 3, 2, 2), [["a", "b"], ["c", "d"]], text=1)
    assert view.about["queries"] == ["0 c", "1 d"]
