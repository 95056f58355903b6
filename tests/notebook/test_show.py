"""``gpt2viz.show`` on attention of any origin: what is read, and the saved numbers, decoded."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections import OrderedDict
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import gpt2viz
from gpt2viz.labels import label
from gpt2viz.notebook import show as module
from gpt2viz.notebook.stored import pool_heads, store
from tests.bundled import bundled_model

HOSTILE = "</script><img src=x onerror=window.hacked=1>"
rng = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    """Rows drawn evenly from all that sum to 1, which compress worst."""
    result = rng.exponential(size=shape)
    return (result / result.sum(axis=-1, keepdims=True)).astype(np.float32)


def unpacked(html: str, name: str) -> bytes:
    (result,) = re.findall(rf'<script type="text/plain" {name}>(.*?)</script>', html, re.DOTALL)
    return zlib.decompress(base64.b64decode(result))


def about(html: str) -> Any:
    (result,) = re.findall(r'data-part="about">(.*?)</script>', html, re.DOTALL)
    return json.loads(result)


def decoded(html: str) -> list[np.ndarray]:
    """The numbers of every layer in a file, (nh, rows, columns)."""
    text, layers = about(html), []
    for n, layer in enumerate(text["layers"]):
        shape = (text["map"]["heads"], layer["rows"], layer["columns"])
        content = unpacked(html, f'data-layer="{n}"')
        if layer["step"]:
            low, high = np.frombuffer(content, np.uint8).reshape(2, *shape).astype(float)
            codes = low + 256 * high
            special = {65533: -np.inf, 65534: np.nan, 65535: np.inf}
            result = layer["low"] + layer["step"] * codes
            for code, number in special.items():
                result[codes == code] = number
        else:
            result = np.frombuffer(content, "<f4").reshape(shape)
        layers.append(result)
    return layers


CASES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "every axis": (torch.from_numpy(weights(2, 1, 3, 5, 5)), (2, 3, 5, 5)),
    "layers of texts": ([torch.from_numpy(weights(1, 3, 5, 5)) for _ in range(2)], (2, 3, 5, 5)),
    "layers of heads": (tuple(weights(3, 4, 4) for _ in range(2)), (2, 3, 4, 4)),
    "layers and heads": (weights(2, 3, 4, 4), (2, 3, 4, 4)),
    "one layer": (weights(3, 4, 4), (1, 3, 4, 4)),
    "one head": (weights(4, 4), (1, 1, 4, 4)),
    "lists of numbers": ([[1.0, 0.0], [0.25, 0.75]], (1, 1, 2, 2)),
    "cross-attention": (weights(2, 3, 4, 7), (2, 3, 4, 7)),
    "one query": (weights(2, 3, 1, 9), (2, 3, 1, 9)),
    "half": (torch.from_numpy(weights(2, 3, 4, 4)).half(), (2, 3, 4, 4)),
    "bfloat16": (torch.from_numpy(weights(2, 3, 4, 4)).bfloat16(), (2, 3, 4, 4)),
    "double, with a gradient": (
        torch.from_numpy(weights(2, 3, 4, 4)).double().requires_grad_(),
        (2, 3, 4, 4),
    ),
}


def in_float32(given: Any) -> np.ndarray:
    """One array, or a list of layers stacked, in float32."""
    layers = given if isinstance(given, list | tuple) else [given]
    plain = [layer.detach().float() if hasattr(layer, "detach") else layer for layer in layers]
    return np.asarray(np.stack(plain), np.float32)


def test_small_attention_is_saved_exactly(subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case=case):
            given, shape = CASES[case]
            result = np.stack(decoded(gpt2viz.show(given).html()))
            np.testing.assert_array_equal(result, in_float32(given).reshape(shape))


class Jax:
    """A stand-in for JAX's arrays, with a shape, a dtype and ``__array__``.

    JAX 0.10.2's own, of float32, float16 and bfloat16, were tried by hand; it isn't installed here.
    """

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values


def test_arrays_that_numpy_can_read_are_shown() -> None:
    given = weights(2, 3, 4, 4)
    np.testing.assert_array_equal(decoded(gpt2viz.show([Jax(a) for a in given]).html()), given)


def test_a_long_text_is_quantized_and_the_error_is_noted() -> None:
    given = weights(2, 5, 250, 250)
    given[0, 0, 3, 4] = np.nan
    given[1, 0, 3, 4] = np.inf
    view = gpt2viz.show(given)
    text = " ".join(view.notes)
    assert "in steps of 0.001, at most 0.0005 off" in text
    assert "2 of 2,500 rows don't sum to 1: their sums are not finite" in text
    result = np.stack(decoded(view.html()))
    np.testing.assert_array_equal(np.isfinite(result), np.isfinite(given))
    finite = np.isfinite(given)
    off = np.abs(result[finite] - given[finite])
    assert 0.00049 < off.max() <= 0.0005 + 1e-9
    assert max(layer.error for layer in view.layers) == pytest.approx(off.max(), rel=1e-6)


def test_the_largest_error_of_all_layers_is_noted() -> None:
    given = np.zeros((2, 10, 250, 250), np.float32)
    given[0] = 0.004  # on a step
    given[1] = 0.0042
    assert "in steps of 0.001, at most 0.0002 off" in " ".join(gpt2viz.show(given, vmax=1).notes)


def test_the_strongest_links_across_two_texts() -> None:
    given = np.full((1, 2, 2, 3), 0.2, np.float32)
    given[0, 0, 1, 2] = given[0, 1, 0, 1] = 0.6
    links = about(gpt2viz.show(given).html())["map"]["links"]
    assert links[0][0] == [1, 1, "0.60"]  # head, key, weight
    assert links[1][0] == [0, 2, "0.60"]


def test_text_chooses_one_of_several_texts() -> None:
    given = weights(2, 3, 4, 5, 5)
    for case, expected in (
        (given, given[:, 2]),
        (given[0], given[:1, 2]),  # one layer: with text=, the first axis is texts
        (list(given), given[:, 2]),
        (given[0, :, 0], given[:1, 2, :1]),  # one head, as nn.MultiheadAttention's mean
    ):
        result = decoded(gpt2viz.show(case, list("abcde"), text=2).html())
        np.testing.assert_array_equal(result, expected)


def test_a_masks_fill_values_are_read_as_minus_infinity() -> None:
    scores = rng.normal(size=(2, 3, 6, 6)).astype(np.float32)
    later = np.triu(np.ones((6, 6), bool), 1)
    plain = np.where(later, -np.inf, scores)
    for fill in (-1e4, -1e9, np.finfo(np.float16).min, np.finfo(np.float32).min):
        given = np.where(later, scores + fill, scores)  # as transformers adds it
        given[0, 1, 4, 2], plain[0, 1, 4, 2] = fill, -np.inf  # in one head alone
        view = gpt2viz.show(list(given), stage="masked_scores")
        np.testing.assert_array_equal(decoded(view.html()), plain)
        assert view.about["large"]["panels"][0]["high"] == np.abs(plain[np.isfinite(plain)]).max()
        assert any("a mask's fill" in sentence for sentence in view.notes)
    seen = np.abs(plain[np.isfinite(plain)])
    notes = " ".join(gpt2viz.show(plain, stage="masked_scores", vmax=1).notes)
    assert f"{100 * (seen > 1).mean():.2f} % of the numbers lie beyond" in notes
    assert "fill" not in notes


def test_the_colour_scale_ends_low_enough_for_small_weights() -> None:
    faint = np.array([np.tril(weights(300, 300)) for _ in range(4)], np.float32)
    faint /= faint.sum(axis=-1, keepdims=True)
    most = float(np.median(faint.max(axis=-1)))
    view = gpt2viz.show(faint)
    end = view.about["lines"]["peak"]
    assert most <= end <= 2 * most
    assert view.about["large"]["panels"][0]["high"] == pytest.approx(end)
    cells = np.frombuffer(unpacked(view.html(), 'data-part="map"'), np.uint8).reshape(4, 40, 40)
    seen = np.tri(40, dtype=bool)
    correct = np.clip([blocks(head / end, 40)[seen] for head in faint], 0, 1)
    np.testing.assert_allclose(cells[:, seen] / 252, correct, atol=0.5 / 252 + 1e-6)
    assert f"{100 * (faint > end).mean():.2f} % of the numbers lie beyond" in " ".join(view.notes)
    assert np.abs(decoded(view.html())[0] - faint).max() < end / 64  # a step is visible
    for given, vmax, expected in (
        (faint, 1, 1.0),
        (faint, 0.5, 0.5),
        (weights(3, 8, 8), None, 1.0),
        (-faint, 0.2, 0.2),
    ):
        panel = gpt2viz.show(given, vmax=vmax).about["large"]["panels"][0]
        assert panel["high"] == pytest.approx(expected)


def test_title_and_head_can_be_chosen() -> None:
    view = gpt2viz.show(weights(2, 3, 4, 4), title="Mine <b>", head=(1, 2))
    assert view.title == "Mine <b>"
    assert "<title>Mine &lt;b&gt;" in view.html()
    assert view.about["chosen"] == 5
    head: Any
    for head in ([1, 2], np.array([1, 2]), "1.2"):
        assert gpt2viz.show(weights(2, 3, 4, 4), head=head).about["chosen"] == 5


#: The part of a transformers tokenizer that is used.
DECODER = SimpleNamespace(decode=lambda ids: chr(ids[0]))


def test_attention_of_generate_becomes_one_picture() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(
        GPT2Config(
            n_layer=2,
            n_head=2,
            n_embd=8,
            vocab_size=128,
            n_positions=32,
            bos_token_id=1,
            eos_token_id=2,
        )
    ).eval()
    model.set_attn_implementation("eager")
    ids = torch.tensor([list(b"abc"), list(b"xyz")])
    requests: dict[str, Any] = {
        "do_sample": False,
        "return_dict_in_generate": True,
        "pad_token_id": 0,
    }
    requests |= {"max_new_tokens": 4, "output_attentions": True}
    written = [model.generate(ids, use_cache=cache, **requests) for cache in (True, False)]
    whole = model(written[0].sequences[:, :-1], output_attentions=True).attentions
    texts = [chr(n).encode() for n in written[0].sequences[1, :-1]]
    for output in written:
        for given, rest in (
            (output, (DECODER,)),
            (output.attentions, (DECODER, output.sequences)),
            (output.attentions, (texts,)),
        ):
            view = gpt2viz.show(given, *rest, text=1)
            expected = np.stack([layer[1].detach().numpy() for layer in whole])
            np.testing.assert_allclose(decoded(view.html()), expected, atol=1e-6)
            assert [name.split(" ", 1)[1] for name in view.about["keys"]] == list(map(label, texts))
    with pytest.raises(gpt2viz.AttentionError, match="num_beams=1"):
        gpt2viz.show(model.generate(ids, num_beams=2, **requests), DECODER, text=0)


def test_cross_attention_of_steps_is_stacked() -> None:
    cross = weights(5, 2, 4, 7)  # what five steps read of seven keys
    steps = [[step[:, :1]] for step in cross]
    result = decoded(gpt2viz.show(steps, (list("abcde"), list("uvwxyz!"))).html())
    np.testing.assert_array_equal(result, cross[:, :, 0].transpose(1, 0, 2)[None])


def test_a_fast_tokenizers_encoding_names_the_tokens() -> None:
    class Encoding(dict[str, Any]):
        def tokens(self, text: int = 0) -> list[str]:
            return [["A", "Ġcrane", "▁ate"], ["x", "y", "z"]][text]

    given, encoding = weights(2, 3, 3, 3), Encoding(input_ids=[[1, 2, 3]])
    view = gpt2viz.show(given[:, None], encoding)
    assert view.about["queries"] == ["0 A", "1 ·crane", "2 ·ate"]
    view = gpt2viz.show(given, encoding, text=1)
    assert view.about["keys"] == ["0 x", "1 y", "2 z"]


def test_ids_of_both_texts_name_queries_and_keys() -> None:
    ids = torch.tensor([[97, 98]]), torch.tensor([[99, 100, 101]])
    view = gpt2viz.show(weights(1, 2, 2, 3), DECODER, ids)
    assert (view.about["queries"], view.about["keys"]) == (["0 a", "1 b"], ["0 c", "1 d", "2 e"])


def test_rows_that_do_not_sum_to_1_are_noted() -> None:
    given = weights(1, 3, 4, 4)
    given[0, 1, 2] *= 0.5
    given[0, 2, 0] *= 0.25
    text = "2 of 12 rows don't sum to 1: their sums are 0.25 to 0.5."
    assert text in gpt2viz.show(given).notes
    nearly = torch.from_numpy(weights(1, 3, 64, 64)).bfloat16()
    assert "sum" not in " ".join(gpt2viz.show(nearly).notes)


def blocks(matrix: np.ndarray, side: int) -> np.ndarray:
    """The largest number of each block, by slicing."""
    edges = [[n * size // side for n in range(side + 1)] for size in matrix.shape]
    cuts = [[slice(a, b) for a, b in pairwise(e)] for e in edges]
    return np.array([[matrix[down, across].max() for across in cuts[1]] for down in cuts[0]])


def test_large_attention_is_pooled_but_for_chosen_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHOLE", 2 * 3 * 20**2)
    given = weights(2, 3, 47, 47)
    view = gpt2viz.show(given, layers=[1])
    first, second = decoded(view.html())
    np.testing.assert_array_equal(first, [blocks(head, 20) for head in given[0]])
    np.testing.assert_array_equal(second, given[1])
    assert "every layer but 1" in " ".join(view.notes)
    assert "block of up to 3 × 3 cells" in " ".join(view.notes)
    assert view.about["chosen"] // 3 == 1
    assert "Of every layer" in " ".join(gpt2viz.show(given).notes)


def test_files_keep_the_promised_size() -> None:
    """Each layer is compressed by itself, so one of each kind gives the size of twelve.

    Rows are drawn evenly from all that sum to 1: no other distribution with their mean, 1/256 or
    1/1,024, has a larger entropy (the geometric one's), and nothing is masked.
    """
    view = gpt2viz.show([weights(10, 256, 256)], vmax=1)
    head, tile = (len(text) / 10 for text in (view.layers[0].text, view.parts["map"]))
    rest = len(view.html()) - 10 * (head + tile) + 144 * tile
    assert view.layers[0].step == 0.001
    assert rest + 144 * head < 6_000_000
    ends = (0.0, 1.0)
    heads, nothing = weights(1, 1024, 1024), np.zeros((1024, 1024), bool)
    whole, part = (len(store(pool_heads(heads, nothing, side), ends).text) for side in (1024, 256))
    assert rest + 4 * 12 * whole + 8 * 12 * part < 25_000_000  # all numbers of four layers


def test_thumbnails_have_the_largest_number_of_each_block() -> None:
    given = weights(1, 2, 90, 60)
    html = gpt2viz.show(given, (list("q" * 90), list("k" * 60)), vmax=1).html()
    cells = np.frombuffer(unpacked(html, 'data-part="map"'), np.uint8).reshape(2, 40, 40)
    for head, result in zip(given[0], cells, strict=True):
        np.testing.assert_allclose(result / 252, blocks(head, 40), atol=0.5 / 252 + 1e-6)


def test_cells_that_are_zero_in_every_head_are_grey_and_noted() -> None:
    seen = np.tril(np.ones((6, 6), bool))
    given = weights(2, 3, 6, 6) * seen
    given /= given.sum(axis=-1, keepdims=True)
    view = gpt2viz.show(given)
    hidden = np.frombuffer(unpacked(view.html(), 'data-part="whole"'), np.uint8)
    bits = np.unpackbits(hidden, bitorder="little")[:36]
    np.testing.assert_array_equal(bits.reshape(6, 6), ~seen)
    assert "Grey: 0 in every head of every layer." in view.notes
    assert not [text for text in view.notes if "sum" in text]
    assert "Grey" not in " ".join(gpt2viz.show(weights(2, 3, 6, 6)).notes)


def test_grey_cells_of_a_trace_are_those_that_its_mask_hid(tiny: gpt2viz.Model) -> None:
    for edits, name in (("", "a later key"), ("window:2", "a later key, or hidden by an edit")):
        run = gpt2viz.trace(tiny, [3, 1, 4, 1, 5, 9, 2, 6], edits=edits)
        for stage in ("weights", "masked_scores"):
            view = gpt2viz.show(run, stage=stage)
            hidden = np.frombuffer(unpacked(view.html(), 'data-part="whole"'), np.uint8)
            bits = np.unpackbits(hidden, bitorder="little").reshape(8, 8)
            np.testing.assert_array_equal(bits, run.hidden_pairs())
            assert f"Grey: masked ({name})." in view.notes
        assert "Grey" not in " ".join(gpt2viz.show(run, stage="scores").notes)


def test_scores_are_not_shown_as_weights() -> None:
    given = rng.normal(size=(2, 3, 6, 6)).astype(np.float32)
    given[..., ~np.tril(np.ones((6, 6), bool))] = -np.inf
    view = gpt2viz.show(given)
    assert "Values" in view.title
    assert re.search(r"between −\d\S+ and \d\S+, so they are not attention", " ".join(view.notes))
    assert "Grey: −∞ in every head of every layer." in view.notes
    assert about(view.html())["map"]["links"] is None
    np.testing.assert_array_equal(decoded(view.html()), given)


def test_a_trace_shows_its_tokens_and_weights() -> None:
    trace = gpt2viz.trace(bundled_model(), f"The cat {HOSTILE}")
    view = gpt2viz.show(trace)
    np.testing.assert_array_equal(decoded(view.html()), trace.all_layers("weights")[:, 0])
    text = about(view.html())
    assert text["queries"][1] == "1 ·cat"
    assert view.title.startswith("stories · Attention weights of ")
    scores = decoded(gpt2viz.show(trace, stage="masked_scores").html())
    np.testing.assert_array_equal(scores[1], trace.stage("masked_scores", 1)[0])


def test_outputs_of_transformers() -> None:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
    config = BertConfig(vocab_size=50, intermediate_size=8, attn_implementation="eager", **sizes)
    model = BertModel(config).eval()
    ids = torch.tensor([[3, 7, 7, 9], [4, 1, 2, 8]])
    with torch.no_grad():
        output = model(ids, output_attentions=True)
        blind = model(ids)
    tokenizer = SimpleNamespace(
        decode=lambda ids: {7: "word", 9: "\ufffd"}.get(ids[0], ""),
        convert_ids_to_tokens=lambda n: {3: "[CLS]", 7: "▁word", 9: "Ã"}[n],
    )
    view = gpt2viz.show(output, tokenizer, ids, text=0)
    assert view.about["queries"] == ["0 [CLS]", "1 ·word", "2 ·word", "3 Ã"]
    expected = np.stack([layer[0].numpy() for layer in output.attentions])
    np.testing.assert_array_equal(decoded(view.html()), expected)
    with pytest.raises(gpt2viz.AttentionError, match="2 texts, and 1 is shown at a time"):
        gpt2viz.show(output)
    with pytest.raises(gpt2viz.AttentionError, match="output_attentions=True"):
        gpt2viz.show(blind, tokenizer, ids)
    both = OrderedDict(decoder_attentions=output.attentions, cross_attentions=output.attentions)
    with pytest.raises(gpt2viz.AttentionError, match=r"show output\.decoder_attentions or"):
        gpt2viz.show(both)


def test_a_cache_of_transformer_lens() -> None:
    scores, patterns = rng.normal(size=(2, 1, 3, 4, 4)).astype(np.float32), weights(2, 1, 3, 4, 4)
    names = {"attn_scores": scores, "pattern": patterns}
    cache = {
        f"blocks.{n}.attn.hook_{name}": torch.from_numpy(values[n])
        for n in (1, 0)
        for name, values in names.items()
    }
    result = gpt2viz.show(cache, list("abcd"))
    np.testing.assert_array_equal(decoded(result.html()), patterns[:, 0])
    result = gpt2viz.show(cache, list("abcd"), stage="masked_scores")
    np.testing.assert_array_equal(decoded(result.html()), scores[:, 0])
    with pytest.raises(gpt2viz.AttentionError, match=r"of stage 'scores'.*: masked_scores weights"):
        gpt2viz.show(cache, stage="scores")
    del cache["blocks.0.attn.hook_pattern"]
    with pytest.raises(gpt2viz.AttentionError, match="1 layer, 1, and not all from 0 on"):
        gpt2viz.show(cache)
    with pytest.raises(gpt2viz.AttentionError, match=r"has no blocks\.0\.attn\.hook_pattern"):
        gpt2viz.show({"hook_embed": patterns})


WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "few tokens": ((weights(2, 3, 4, 4), ["a"] * 3), {}, "4 queries, but 3 tokens .* one a pos"),
    "few keys": ((weights(3, 4, 7), (["a"] * 4, ["b"] * 6)), {}, "7 keys, but 6 tokens were"),
    "one list": ((weights(3, 4, 7), ["a"] * 7), {}, r"4 queries and 7 keys, .* \(queries, keys\)"),
    "a text": ((weights(4, 4), "abcd"), {}, "one text, but attention is of 4 queries: pass a list"),
    "ids": ((weights(4, 4), SimpleNamespace(decode=str)), {}, r"show\(output, tokenizer, ids\)"),
    "axes": ((np.ones(4),), {}, r"shape \(4,\), and 3 axes"),
    "empty": ((np.ones((2, 3, 0, 0)),), {}, r"shape \(3, 0, 0\), and 3 axes"),
    "sizes": (([weights(3, 4, 4), weights(2, 4, 4)],), {}, "Layer 1 is of 2 heads .* of 3 heads"),
    "no layers": (([],), {}, "0 layers"),
    "other steps": (([[weights(3, 4, 4)], [weights(3, 1, 9)]],), {}, "9 keys come after 4 tokens"),
    "steps of layers": (([[weights(3, 4, 4)], []],), {}, "can't be read from list"),
    "a layer": ((weights(3, 4, 4),), {"layers": [1]}, "no layer 1: layers are 0 to 0"),
    "a stage": ((weights(3, 4, 4),), {"stage": "q"}, "Stage 'q' has no number"),
    "another text": ((weights(1, 2, 3, 4, 4),), {"text": 2}, "no text 2 among 2"),
    "words": ((["a", "b"],), {}, "can't be read from list"),
    "a text of layers": ((weights(2, 3, 4, 4),), {"text": 7}, "no text 7 among 2"),
    "a text of one head": ((weights(4, 4),), {"text": 0}, "chooses along the first axis"),
    "no number of a text": ((weights(2, 3, 4, 4),), {"text": "b"}, "text='b' must be a number"),
    "a tokenizer's text": ((weights(4, 4), DECODER, "abcd"), {}, r"ids are str: .*\['input_ids'\]"),
    "ragged ids": ((weights(4, 4), DECODER, [[1], [2, 3]]), {}, "ids are list: pass the whole"),
    "ids without their tokenizer": ((weights(4, 4), {"input_ids": []}), {}, "give the tokenizer"),
    "a dictionary": (({"h.0.attn": weights(4, 4)},), {}, r"'h\.0\.attn': .* list\(found\.values"),
    "a head": ((weights(3, 4, 4),), {"head": (0, 3)}, "layers 0 to 0 and heads 0 to 2"),
    "a head's number": ((weights(3, 4, 4),), {"head": 1}, r"no head 1: head=\(layer, head\)"),
    "a head's name": ((weights(3, 4, 4),), {"head": "0.x"}, r"no head '0\.x'"),
    "a truth": ((weights(2, 3, 4, 4),), {"text": True}, "text=True must be a number"),
    "no tokens": ((weights(3, 4, 4), 4), {}, "tokens are int: pass a list of texts"),
    "no end of colours": ((weights(3, 4, 4),), {"vmax": 0}, "vmax=0 must be a number above 0"),
}


def test_wrong_arguments_are_refused_with_a_remedy(subtests: pytest.Subtests) -> None:
    for case in WRONG:
        with subtests.test(case=case):
            given, options, text = WRONG[case]
            with pytest.raises(gpt2viz.AttentionError, match=text):
                gpt2viz.show(*given, **options)


def test_markup_in_tokens_is_escaped(tmp_path: Path) -> None:
    view = gpt2viz.show(weights(3, 3), ["</script>", "<img/src=x>", HOSTILE])
    path = view.save(tmp_path / "attention.html")
    html = path.read_text(encoding="utf-8")
    assert "<img" not in html
    assert about(html)["map"]["tokens"][:2] == ["0 </script>", "1 <img/src=x>"]
    frame = view._repr_mimebundle_()["text/html"]
    assert re.fullmatch(
        r'<iframe sandbox="allow-scripts" [^<>]*></iframe><style>[^<]*</style>', frame
    )
    assert view._repr_mimebundle_()["text/plain"] == repr(view)
    with pytest.raises(gpt2viz.ExportError, match="can't be written"):
        view.save(tmp_path / "no" / "folder.html")


def test_only_a_trace_is_saved_as_a_session(tmp_path: Path) -> None:
    with pytest.raises(gpt2viz.ExportError, match=r"as numbers: save it as \.html"):
        gpt2viz.show(np.eye(3)).save(tmp_path / "x.json")
    trace = gpt2viz.trace(bundled_model(), "A crane ate fish")
    n_layer, n_head = trace.config.n_layer, trace.config.n_head
    view = gpt2viz.show(trace)
    path = view.save(tmp_path / "x.json")
    again = gpt2viz.show(path)
    assert again.about["chosen"] == view.about["chosen"]
    np.testing.assert_array_equal(decoded(again.html()), decoded(view.html()))
    session = json.loads(path.read_text(encoding="utf-8"))
    for layer, head in ((n_layer, 0), (0, n_head), (0, -1)):  # another model's, or of no model
        session["parameters"] |= {"layer": str(layer), "head": str(head)}
        path.write_text(json.dumps(session), encoding="utf-8")
        assert gpt2viz.show(path).about["chosen"] == view.about["chosen"]
