"""Watched attention equals transformers' own eager functions."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import gpt2viz
from gpt2viz.run import watch as module

VISION = {"hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 2}
VISION |= {"num_attention_heads": 4, "image_size": 16, "patch_size": 4}
SIZES = dict(list(VISION.items())[:4]) | {"vocab_size": 60, "max_position_embeddings": 64}
GROUPED = {**SIZES, "num_key_value_heads": 2}
WINDOW = {**GROUPED, "head_dim": 8, "sliding_window": 5}
HEADS = {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": GROUPED,
    "Qwen2": GROUPED,
    "Qwen3": {**GROUPED, "head_dim": 12},
    "Gemma2": {**WINDOW, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 3},
    "Gemma3": {**WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
    "GPTNeoX": SIZES,
    "GPT2": SIZES,
    "Olmo2": GROUPED,
    "Phi": SIZES,
    "Mistral": WINDOW,
    "GptOss": {**WINDOW, "num_local_experts": 2, "num_experts_per_tok": 1},
    "Bert": SIZES,
    "ViT": VISION,
    "T5": {"vocab_size": 60, "d_model": 32, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 4},
    "Whisper": {"vocab_size": 60, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, **HEADS}
    | {"encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "num_mel_bins": 8, "max_source_positions": 10}
    | {"max_target_positions": 32, "suppress_tokens": [], "begin_suppress_tokens": []},
    "Bloom": SIZES,
}
DECODERS = list(FAMILIES)[: list(FAMILIES).index("Bert")]
CLASSES = {"GPT2": "LMHeadModel", "Bert": "Model", "ViT": "Model"}
CLASSES |= dict.fromkeys(("T5", "Whisper"), "ForConditionalGeneration")
IDS = torch.arange(3, 17).reshape(2, 7)
MASKS = {
    "none": torch.ones(2, 7, dtype=torch.int64),
    "left": torch.tensor([[1] * 7, [0] * 3 + [1] * 4]),
    "right": torch.tensor([[1] * 7, [1] * 5 + [0] * 2]),
}
GREEDY: dict[str, Any] = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
SELF, CROSS = "decoder.block.N.layer.N.Self", "EncDec"


def make_model(name: str) -> Any:
    """A random model with widely spread scores, sinks and biases."""
    torch.manual_seed(0)
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3}
    config = getattr(transformers, "Gemma3TextConfig" if name == "Gemma3" else f"{name}Config")
    model = getattr(transformers, name + CLASSES.get(name, "ForCausalLM"))
    return random(model(config(**FAMILIES[name], **special)))


def random(model: Any) -> Any:
    for weights in model.parameters():
        torch.nn.init.normal_(weights, 0.5 if weights.ndim == 1 else 0, 0.3)
    if type(model).__name__.startswith("Gemma2"):
        model.set_attn_implementation("eager")  # sdpa has no softcap
    return model.eval()


def eager(model: Any, **inputs: Any) -> Any:
    """The outputs of the same weights with transformers' eager functions."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return model(**inputs, output_attentions=True)


def with_positions(mask: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}


def check(run: Any, expected: Any, mask: torch.Tensor | None = None, part: str = "") -> None:
    """Compare all layers' weights, except those of queries that are padding."""
    assert run.layers(part) == list(range(len(expected)))
    for n, layer in enumerate(expected):
        weights, attentions = run.weights(n, part=part), layer.detach().float().numpy()
        assert weights.dtype == np.float32
        assert weights.shape == attentions.shape
        rows = np.ones(weights.shape[:1] + weights.shape[2:3], bool) if mask is None else mask == 1
        assert np.abs(weights - attentions).max(axis=(1, 3))[np.asarray(rows)].max() < 1e-5
        np.testing.assert_allclose(run.weights(n, 2, part=part), weights[:, 2], atol=1e-6)


@pytest.mark.parametrize("padding", MASKS)
@pytest.mark.parametrize("name", DECODERS)
def test_weights_equal_eager_attention(name: str, padding: str) -> None:
    model, inputs = make_model(name), {"input_ids": IDS, **with_positions(MASKS[padding])}
    with torch.no_grad():
        bare = model(**inputs).logits
        with gpt2viz.watch(model) as run:
            assert torch.equal(model(**inputs).logits, bare)
    check(run, eager(model, **inputs).attentions, MASKS[padding])
    with gpt2viz.watch(model) as run:
        output = eager(model, **inputs)
    check(run, output.attentions)  # padding's rows too
    assert np.isneginf(run.scores(1)[0, :, 0, 1:]).all()


@pytest.mark.parametrize("cache", ["dynamic", "static", None])
@pytest.mark.parametrize("name", DECODERS)
def test_generation_gives_one_square_matrix(name: str, cache: str | None) -> None:
    for mask in (MASKS["none"], MASKS["left"]):
        model, inputs = make_model(name), {"input_ids": IDS, "attention_mask": mask}
        options = (
            {"use_cache": True, "cache_implementation": cache} if cache else {"use_cache": False}
        )
        bare = model.generate(**inputs, **options, **GREEDY)
        with gpt2viz.watch(model) as run:
            written = model.generate(**inputs, **options, **GREEDY)
        assert torch.equal(written, bare)
        whole = torch.cat([mask, torch.ones(2, 5, dtype=torch.int64)], 1)
        output = eager(model, input_ids=written[:, :-1], **with_positions(whole))
        check(run, output.attentions, whole)


def test_encoders_decoders_and_cross_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 2 * 4 * 7 * 3)  # three rows
    bert, vit, t5, whisper = map(make_model, ("Bert", "ViT", "T5", "Whisper"))
    pixels, sound = torch.randn(2, 3, 16, 16), torch.randn(2, 8, 20)
    for model, given in ((bert, {"input_ids": IDS}), (vit, {"pixel_values": pixels})):
        with gpt2viz.watch(model) as run:
            model(**given)
        check(run, eager(model, **given).attentions)
    inputs = {"input_ids": IDS, "attention_mask": MASKS["right"]}
    with gpt2viz.watch(t5) as run:
        written = t5.generate(**inputs, **GREEDY)
    output = eager(t5, **inputs, decoder_input_ids=written[:, :-1])
    for part in ("encoder", SELF, CROSS):
        kinds = output.encoder_attentions, output.decoder_attentions, output.cross_attentions
        check(run, dict(zip(("encoder", SELF, CROSS), kinds, strict=True))[part], part=part)
    with pytest.raises(gpt2viz.AttentionError, match=r"part='encoder\.block\.N\.layer.* or part="):
        run.weights(0)
    start = torch.tensor([[3, 5, 7], [3, 9, 11]])
    for cache in ("dynamic", "static"):
        whisper.set_attn_implementation("sdpa")
        with gpt2viz.watch(whisper) as run:
            written = whisper.generate(
                sound, decoder_input_ids=start, cache_implementation=cache, **GREEDY
            )
        ids = torch.cat([start, written], 1)[:, :-1]
        output = eager(whisper, input_features=sound, decoder_input_ids=ids)
        check(run, output.encoder_attentions, part="encoder.layers")
        check(run, output.decoder_attentions, part="decoder.layers.N.self")
        check(run, output.cross_attentions, part="encoder_attn")


def llava() -> Any:
    """A model of words and pictures, of 16 patches."""
    torch.manual_seed(0)
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**VISION),
        text_config=transformers.LlamaConfig(**GROUPED),
        image_token_index=59,
        vision_feature_layer=-1,
    )
    return random(transformers.LlavaForConditionalGeneration(config))


def test_beams_are_followed() -> None:
    model = make_model("T5")
    inputs = {"input_ids": IDS, "attention_mask": MASKS["right"]}
    options = {"num_beams": 3, "num_return_sequences": 2, "return_dict_in_generate": True}
    with gpt2viz.watch(model) as run:
        written = model.generate(**inputs, max_new_tokens=9, output_scores=True, **options)
    beams = written.beam_indices
    assert (beams[:, :-1] != beams[:, 1:]).any()
    beams[0, 7:] = -1  # as for a text that has ended
    twice = {key: values.repeat_interleave(2, 0) for key, values in inputs.items()}
    output = eager(model, **twice, decoder_input_ids=written.sequences[:, :-1])
    for part, kinds in ((SELF, output.decoder_attentions), (CROSS, output.cross_attentions)):
        with pytest.raises(gpt2viz.AttentionError, match=r"beams=output\.beam_indices"):
            run.weights(1, part=part)
        for n, layer in enumerate(kinds):
            weights = run.weights(n, part=part, beams=beams)
            for text, way in enumerate(beams):
                T = int((way >= 0).sum())
                attentions = layer[text, :, :T, : T if part == SELF else None].numpy()
                np.testing.assert_allclose(
                    weights[text, :, :T, : attentions.shape[-1]], attentions, atol=1e-5
                )
                assert not weights[text, :, T:].any()
    with pytest.raises(gpt2viz.AttentionError, match="are of another generate"):
        run.weights(0, part=SELF, beams=beams + 6)


RECORDED: list[tuple[torch.Tensor, torch.Tensor, Any]] = []


def recording_sdpa(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
    RECORDED.append((query.clone(), key.clone(), mask))
    return transformers.AttentionInterface()["sdpa"](module, query, key, value, mask, **options)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_kept_and_computed_in_float32(kind: torch.dtype) -> None:
    transformers.AttentionInterface.register("recording", recording_sdpa)
    transformers.AttentionMaskInterface.register("recording", transformers.masking_utils.sdpa_mask)
    RECORDED.clear()
    model = make_model("Qwen2").to(kind)
    model.set_attn_implementation("recording")
    with torch.no_grad(), gpt2viz.watch(model) as run:
        model(IDS, attention_mask=MASKS["left"])
    assert run.nbytes < 2 * sum(query.nbytes + key.nbytes for query, key, _ in RECORDED)
    for n, (query, key, mask) in enumerate(RECORDED):
        np.testing.assert_array_equal(run.q(n), query.float().numpy())
        keys = key.double().repeat_interleave(2, 1)
        np.testing.assert_array_equal(run.k(n, 3), keys[:, 3].numpy())
        scores = (query.double() @ keys.mT / 8**0.5).masked_fill(~mask, -torch.inf)
        np.testing.assert_allclose(run.scores(n), scores.numpy(), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(run.weights(n), scores.softmax(-1).nan_to_num(0), atol=1e-5)


def as_flash(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
    """A flash kernel's attention: its mask has only the padding, it adds causality and window."""
    far = torch.arange(key.shape[2])[:, None] - torch.arange(key.shape[2])
    seen = (far >= 0) & (far < options["sliding_window"])
    seen = seen if mask is None else seen & mask[:, None, None].bool()
    return transformers.AttentionInterface()["sdpa"](
        module, query, key, value, seen, scaling=options["scaling"]
    )


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from torch, in flex attention
@pytest.mark.parametrize("padding", MASKS)
@pytest.mark.parametrize("attention", ["my_flash", "flex_attention"])
def test_masks_of_flash_and_flex_attention_are_read(attention: str, padding: str) -> None:
    transformers.AttentionInterface.register("my_flash", as_flash)
    transformers.AttentionMaskInterface.register(
        "my_flash", transformers.masking_utils.flash_attention_mask
    )
    model, inputs = make_model("Mistral"), {"input_ids": IDS, **with_positions(MASKS[padding])}
    model.config._attn_implementation = attention
    with torch.compiler.set_stance("force_eager"), torch.no_grad(), gpt2viz.watch(model) as run:
        model(**inputs)
    check(run, eager(model, **inputs).attentions, MASKS[padding])


def test_only_the_model_is_watched_and_all_is_restored() -> None:
    model, other = make_model("Llama"), make_model("Qwen2")
    state = {key: values.clone() for key, values in model.state_dict().items()}
    config, theirs = model.config.to_dict(), list[Any]()
    interface = transformers.AttentionInterface
    original, sdpa = interface.get_interface, interface()["sdpa"]

    def watch_other() -> None:
        with torch.no_grad(), gpt2viz.watch(other) as run:
            theirs.extend([other(IDS).logits, run])

    with torch.no_grad():
        bare = other(IDS).logits
    with suppress(ZeroDivisionError), gpt2viz.watch(model) as run:
        thread = threading.Thread(target=watch_other)
        thread.start()
        thread.join()
        assert interface.get_interface is not original
        raise ZeroDivisionError
    assert torch.equal(theirs[0], bare)
    assert (run.parts, theirs[1].layers()) == ((), [0, 1])
    assert interface.get_interface is original
    assert interface()["sdpa"] is sdpa
    assert model.config.to_dict() == config
    assert all(torch.equal(values, state[key]) for key, values in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_byte_limit_is_kept_and_noted() -> None:
    model, every = make_model("Llama"), 2 * 4 * 7 * 8 * 4 + 2 * 2 * 7 * 8 * 4  # a layer's q and k
    with torch.no_grad(), gpt2viz.watch(model, max_bytes=4000) as run:
        model(IDS)
    assert (run.layers(), run.nbytes) == ([0], every)
    rest = "the rest is left out: choose layers=, heads= or a larger one."
    assert run.notes == [f"max_bytes=4,000 is reached in layer 1, so {rest}"]
    with torch.no_grad(), gpt2viz.watch(model, max_bytes=2 * every) as again:
        model(IDS)
        model(IDS + 30)
    assert "earlier calls are let go" in again.notes[0]
    with torch.no_grad(), gpt2viz.watch(model, layers=[1], heads=[9, 3, 1]) as few:
        model(IDS)
        model(IDS + 30)
    assert few.nbytes == 2 * 2 * 2 * 2 * 7 * 8 * 4
    check(again, eager(model, input_ids=IDS + 30).attentions)
    whole = eager(model, input_ids=IDS).attentions[1].numpy()
    np.testing.assert_allclose(few.weights(1, call=0), whole[:, [3, 1]], atol=1e-5)
    np.testing.assert_allclose(few.weights(1, 1, call=-2), whole[:, 1], atol=1e-5)
    for record, options, sentence in (
        (run, {"layer": 1}, r"There is no layer 1 here, only \[0\]\. max_bytes="),
        (few, {"layer": 1, "head": 0}, r"There is no head 0 here, only \[3, 1\]"),
        (few, {"layer": 1, "call": 2}, "Layer 1 has 2 calls, not 2"),
        (few, {"layer": 1, "cal": 2}, "cal= isn't one of part, call, beams"),
    ):
        with pytest.raises(gpt2viz.AttentionError, match=sentence):
            record.weights(**options)


def test_calls_of_two_texts_are_told_apart() -> None:
    model = make_model("Llama")
    with torch.no_grad(), gpt2viz.watch(model) as run:
        caches = [model(ids[None]).cache for ids in IDS]
        model(torch.tensor([[9]]), cache=caches[0])
    with pytest.raises(gpt2viz.AttentionError, match="Another text was read between these steps"):
        run.weights(0)
    with torch.no_grad(), gpt2viz.watch(model) as run:  # the cached tokens are seen too
        model(torch.tensor([[9]]), cache=caches[1])
    ids = torch.cat([IDS[1:], torch.tensor([[9]])], 1)
    expected = eager(model, input_ids=ids).attentions[1][:, :, -1:]
    np.testing.assert_allclose(run.weights(1), expected, atol=1e-5)


def test_unsupported_models_are_refused() -> None:
    for model, name in (
        (make_model("Bloom"), "BloomForCausalLM"),
        (torch.nn.Linear(2, 2), "Linear"),
    ):
        with pytest.raises(gpt2viz.AttentionError, match=f"{name} asks no registry .*eager"):
            gpt2viz.watch(model).__enter__()
    with gpt2viz.watch(make_model("Llama")) as run:
        pass
    with pytest.raises(gpt2viz.AttentionError, match="No attention of this model ran"):
        run.weights(0)
