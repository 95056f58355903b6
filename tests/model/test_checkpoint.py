"""Each fault of a checkpoint folder gives one message that says what to fix."""

from __future__ import annotations

import codecs
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from numpy.testing import assert_array_equal
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

import gpt2viz
from gpt2viz.model.checkpoint import weight_bytes
from gpt2viz.model.config import config_from
from tests.checkpoints import edit_json, weights_of
from tests.llama_checkpoints import CONFIG as LLAMA

Weights = dict[str, torch.Tensor]


def assert_refused(folder: Path, message: str) -> None:
    with pytest.raises(gpt2viz.CheckpointError, match=message):
        gpt2viz.load_model(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda w: w.pop("transformer.h.1.ln_2.bias"),
            r"h\.1\.ln_2\.bias \(24,\).* is missing from the weights",
        ),
        (
            lambda w: w.update({"transformer.h.3.ln_1.bias": torch.zeros(24)}),
            r"model\.safetensors: transformer\.h\.3\.ln_1\.bias \(24,\) has no place",
        ),
        (
            lambda w: w.update({"transformer.h.0.mlp.c_fc.weight": torch.zeros(96, 24)}),
            r"h\.0\.mlp\.c_fc\.weight has size \(96, 24\), but config.json asks for \(24, 96\)",
        ),
        (
            lambda w: w.update({"transformer.ln_f.bias": torch.zeros(24, dtype=torch.int32)}),
            r"ln_f\.bias holds I32; only F16, BF16, F32, F64 can be read",
        ),
        (
            lambda w: w.update({"transformer.ln_f.bias": torch.zeros(24).to(torch.float8_e4m3fn)}),
            r"ln_f\.bias holds F8_E4M3; only F16",
        ),
        (
            lambda w: w.update({"lm_head.weight": torch.ones(420, 24)}),
            "lm_head.weight differs from wte.weight, but config.json ties them",
        ),
        (
            lambda w: w.update({"ln_f.bias": torch.zeros(24)}),
            "is there already as",
        ),
    ],
    ids=["missing", "extra", "wrong size", "integers", "eight bits", "tied but different", "twice"],
)
def test_wrong_tensors(folder: Path, change: Callable[[Weights], Any], message: str) -> None:
    with weights_of(folder) as weights:
        change(weights)
    assert_refused(folder, message)


def test_prefixes_and_old_mask_buffers_are_ignored(folder: Path) -> None:
    before = gpt2viz.trace(gpt2viz.load_model(folder), [5, 6, 7])
    whole = load_file(folder / "model.safetensors")
    bare = {name.removeprefix("transformer."): weight.clone() for name, weight in whole.items()}
    bare["h.0.attn.bias"] = torch.ones(1, 1, 24, 24)
    bare["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    bare["lm_head.weight"] = bare["wte.weight"].clone()
    for prefix in ("", "_orig_mod.transformer.", "module.transformer.", "module._orig_mod."):
        renamed = {prefix + name: weight for name, weight in bare.items()}
        save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
        after = gpt2viz.trace(gpt2viz.load_model(folder), [5, 6, 7])
        assert_array_equal(after.logits, before.logits, err_msg=prefix)


#: Names in classes of transformers and trl.
TASK_HEADS = (
    *("score.weight", "classifier.bias", "qa_outputs.weight", "v_head.summary.weight"),
    *("multiple_choice_head.summary.bias", "module.v_head.summary.bias"),
)


def test_task_heads_are_set_aside_and_listed(folder: Path) -> None:
    before = gpt2viz.load_model(folder)
    with weights_of(folder) as weights:
        weights |= {name: torch.ones(3, 24) for name in TASK_HEADS}
    model = gpt2viz.load_model(folder)
    assert set(model.set_aside) == {name.removeprefix("module.") for name in TASK_HEADS}
    assert not before.set_aside
    runs = (gpt2viz.trace(m, [5, 6, 7]).logits for m in (model, before))
    assert_array_equal(next(runs), next(runs))
    assert weight_bytes(folder) == before.nbytes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bert"}, "model_type is 'bert'; these can be read: gpt2, llama"),
        ({"n_head": 5}, r"n_embd \(24\) must be a multiple of n_head \(5\)"),
        ({"n_layer": 0}, "n_layer must be a positive whole number, not 0"),
        ({"n_layer": True}, "n_layer must be a positive whole number, not True"),
        ({"n_positions": "24"}, "n_positions must be a positive whole number, not '24'"),
        ({"n_inner": -1}, "n_inner must be a positive whole number or null, not -1"),
        ({"layer_norm_epsilon": 0}, "layer_norm_epsilon must be a positive number, not 0"),
        ({"layer_norm_epsilon": math.nan}, "layer_norm_epsilon must be a positive number, not nan"),
        ({"layer_norm_epsilon": "1e-5"}, "must be a positive number, not '1e-5'"),
        ({"initializer_range": -0.02}, "initializer_range must be a number from 0, not -0.02"),
        ({"attn_pdrop": 2}, "attn_pdrop must be a number from 0 to 1, not 2"),
        ({"embd_pdrop": -0.1}, "embd_pdrop must be a number from 0 to 1, not -0.1"),
        ({"resid_pdrop": True}, "resid_pdrop must be a number from 0 to 1, not True"),
        ({"n_inner": 40}, r"h\.0\.mlp\.c_fc\.weight has size \(24, 96\), .* \(24, 40\)"),
        ({"n_layer": 2}, r"transformer\.h\.2\.\S+ \(.*\) has no place"),
        ({"n_embd": 24 * 10**30}, r"wte\.weight has size \(420, 24\), but config.json asks for"),
        ({"tie_word_embeddings": False}, r"lm_head\.weight \(420, 24\), .* is missing"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings must be true or false"),
        ({"activation_function": "mish"}, "'mish' is not one of gelu_new, .*, tanh"),
        ({"scale_attn_weights": False}, "scale_attn_weights = False is not supported"),
        ({"add_cross_attention": True}, "add_cross_attention = True is not supported"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads = .* is not supported"),
        ({"quantization_config": {"bits": 4}}, "quantization_config = .* is not supported"),
        ({"scale_attn_by_inverse_layer_idx": 1}, "scale_attn_by_inverse_layer_idx must be true or"),
        ({"hidden_size": 48}, "n_embd = 24 and hidden_size = 48 are two names of one size"),
        ({"vocab_size": 300}, r"wte\.weight has size \(420, 24\), but config.json asks for"),
        ({"n_layer": 10_000_000}, r"h\.3\.ln_1\.weight .* is missing"),
    ],
    ids=lambda value: "".join(value) if isinstance(value, dict) else "",
)
def test_wrong_config(folder: Path, changes: dict[str, object], message: str) -> None:
    edit_json(folder / "config.json", **changes)
    assert_refused(folder, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rope_parameters": {"rope_theta": 0}}, "rope_theta must be a positive number, not 0"),
        ({"rope_parameters": {"rope_type": ["llama3"]}}, r"rope_type \['llama3'\] is not"),
        ({"rope_parameters": {"full_attention": {"a": 1}}}, "full_attention = .* is not supported"),
        ({"num_key_value_heads": 0}, "num_key_value_heads must be a positive .* not 0"),
        ({"num_attention_heads": "12"}, "num_attention_heads must be a positive .* not '12'"),
        ({"hidden_act": None}, "hidden_act must be one of gelu_new, .*, tanh, not None"),
        ({"use_sliding_window": "no"}, "use_sliding_window must be true or false, not 'no'"),
    ],
)
def test_unsupported_llama_config_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(gpt2viz.CheckpointError, match=message):
        config_from(LLAMA | change)


def test_alternative_names_of_sizes_are_read(folder: Path) -> None:
    before = gpt2viz.load_model(folder).config
    assert (before.n_head, before.head_dim, before.n_embd) == (4, 6, 24)
    other = {"n_embd": "hidden_size", "n_head": "num_attention_heads"}
    other |= {"n_layer": "num_hidden_layers", "n_positions": "max_position_embeddings"}
    values = {also: getattr(before, name) for name, also in other.items()}
    edit_json(folder / "config.json", **dict.fromkeys(other), **values)
    assert gpt2viz.load_model(folder).config == before


def test_truncated_file_is_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for length in (0, 7, 100, len(whole) - 100):
        path.write_bytes(whole[:length])
        assert_refused(folder, "model.safetensors: not a whole safetensors file")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda e: e.update(data_offsets=[e["data_offsets"][0] + 4] * 2), "4 bytes|0 bytes"),
        (lambda e: e.update(shape=[-1, 24]), "no dtype, shape and data_offsets"),
        (lambda e: e.update(shape=[24.0]), "no dtype, shape and data_offsets"),
        (lambda e: e.update(shape=[True]), "no dtype, shape and data_offsets"),
        (lambda e: e.update(shape=[2**40]), "96 bytes for"),
        (lambda e: e.update(data_offsets=[0]), "not enough values"),
        (lambda e: e.update(data_offsets=[n + 8 for n in e["data_offsets"]]), "starts at byte"),
        (lambda e: e.update(data_offsets=[0, 96]), "starts at byte"),
        (lambda e: e.clear(), "no dtype, shape and data_offsets"),
    ],
    ids=["empty", "negative", "broken", "true", "huge", "one end", "gap", "two in one", "nothing"],
)
def test_inconsistent_header_is_refused(
    folder: Path, change: Callable[[dict[str, Any]], Any], why: str
) -> None:
    path = folder / "model.safetensors"
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    entries = json.loads(content[8 : 8 + length])
    change(entries["transformer.ln_f.bias"])
    header = json.dumps(entries).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])
    assert_refused(folder, rf"^model.safetensors: not a whole safetensors file \(.*({why})")
    with pytest.raises(SafetensorError):  # the format's own library agrees
        load_file(path)


def test_gap_between_tensors_is_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    entries, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    start = entries["transformer.ln_f.bias"]["data_offsets"][0]
    for name, entry in entries.items():
        if name != "__metadata__":
            entry["data_offsets"] = [n + 8 * (n > start) for n in entry["data_offsets"]]
    entries["transformer.ln_f.bias"]["data_offsets"] = [start + 8, start + 8 + 96]
    header = json.dumps(entries).encode()
    data = data[:start] + bytes(8) + data[start:]
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    assert_refused(folder, r"transformer.ln_f.bias starts at byte \d+, not \d+")
    with pytest.raises(SafetensorError):
        load_file(path)


@pytest.mark.parametrize("file", ["config.json", "vocab.json"])
@pytest.mark.parametrize("content", [b"{", b"\xff{}", b"[" * 100_000], ids=["cut", "bytes", "deep"])
def test_invalid_json_is_refused(folder: Path, file: str, content: bytes) -> None:
    (folder / file).write_bytes(content)
    assert_refused(folder, f"^{file}: can't be read")


def test_config_must_be_a_json_object(folder: Path) -> None:
    (folder / "config.json").write_text("[]", encoding="utf-8")
    assert_refused(folder, "config.json: a JSON object is expected")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a b c\n"], ids=["bytes", "three parts"])
def test_unreadable_merges_are_refused(folder: Path, content: bytes) -> None:
    (folder / "merges.txt").write_bytes(content)
    assert_refused(folder, "merges.txt: ")


def test_token_id_beyond_the_embedding_is_refused(folder: Path) -> None:
    edit_json(folder / "vocab.json", a=420)
    assert_refused(
        folder, r"the tokenizer has 421 tokens, .* but the model only 420 \(vocab_size\)"
    )


@pytest.mark.parametrize("content", [{}, [], None, {"weight_map": ["a"]}, {"weight_map": {}}])
def test_index_without_a_weight_map_is_refused(folder: Path, content: object) -> None:
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps(content), encoding="utf-8")
    assert_refused(folder, "model.safetensors.index.json: ")


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path / "gpt2", "gpt2: there is no such folder. .*`gpt2viz fetch NAME`")
    assert_refused(tmp_path, "no config.json; give a folder in Hugging Face's layout")


def test_missing_weights_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert_refused(folder, "no model.safetensors and no model.safetensors.index.json")


def test_pickles_are_refused_with_a_working_recipe(folder: Path) -> None:
    before = gpt2viz.load_model(folder).network.state_dict()
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    parts = "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"
    for shares in ({parts[0]: names[::2], parts[1]: names[1::2]}, {"pytorch_model.bin": names}):
        (folder / "model.safetensors").unlink()
        for file, part in shares.items():
            torch.save({name: weights[name] for name in part}, folder / file)
        with pytest.raises(gpt2viz.CheckpointError) as refusal:
            gpt2viz.load_model(folder)
        recipe = str(refusal.value).split("trust the file:\n")[1]
        exec(recipe, {})  # noqa: S102 (the message's own recipe must work)
        after = gpt2viz.load_model(folder).network.state_dict()
        assert all(torch.equal(after[name], weight) for name, weight in before.items())


def test_other_weight_formats_are_refused_with_advice(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "optimizer.pt").touch()  # holds no weights
    hints = {
        "flax_model.msgpack": "made for another program",
        "model.onnx": "made for another program",
        "adapter_model.safetensors": "merge_and_unload",
        "model-00002-of-00002.safetensors": "model.safetensors.index.json",
        "weights.safetensors": "model.safetensors",
        "model-q4.gguf": "Give that file itself.*/model-q4.gguf",
        "ckpt.pt": "gpt2viz convert",
    }
    assert_refused(folder, "no model.safetensors")
    for name, hint in hints.items():
        (folder / name).touch()
        assert_refused(folder, f"{name}.*{hint}")
        (folder / name).unlink()
    for name in ("adapter_config.json", "model-q4.gguf", "ckpt.pt"):  # no config.json needed
        alone = tmp_path / name.partition(".")[0]
        alone.mkdir()
        (alone / name).touch()
        assert_refused(alone, f"{name}.*({'|'.join(hints.values())})")


def test_byte_order_mark_is_ignored(folder: Path) -> None:
    before = gpt2viz.load_model(folder).tokenizer
    for name in ("config.json", "vocab.json", "merges.txt"):
        content = (folder / name).read_bytes()
        if name == "merges.txt":  # its first line, which a mark would hide
            content = content.partition(b"\n")[2]
        (folder / name).write_bytes(codecs.BOM_UTF8 + content)
    after = gpt2viz.load_model(folder).tokenizer
    assert after.merges == before.merges
    assert after.cuts_like(before)


@pytest.mark.parametrize(
    ("number", "text"), [(math.nan, "nan"), (-math.inf, "-inf"), (2e15, "2e[+]15")]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nan_and_inf_are_refused(
    folder: Path, number: float, text: str, dtype: torch.dtype
) -> None:
    with weights_of(folder) as weights:
        weights["transformer.h.1.mlp.c_fc.weight"] = torch.ones(24, 96, dtype=dtype)
        weights["transformer.h.1.mlp.c_fc.weight"][5, 7] = number
    assert_refused(
        folder, rf"^model.safetensors: .*h\.1\.mlp\.c_fc\.weight holds {text} at \[5, 7\]"
    )


def test_float16_overflow_is_refused(folder: Path) -> None:
    with weights_of(folder) as weights:
        weights |= {n: (70_000 * weight).half() for n, weight in weights.items()}
    assert_refused(folder, "holds -?inf at")


@pytest.mark.parametrize("name", ["config.json", "merges.txt", "model.safetensors"])
def test_link_out_of_the_folder_is_refused(folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / name)
    (folder / name).symlink_to(folder.parent / name)
    assert_refused(folder, f"^{name}: a link that leads out of its folder")
    (folder / "own").write_bytes((folder.parent / name).read_bytes())
    (folder / name).unlink()
    (folder / name).symlink_to("own")
    assert gpt2viz.load_model(folder).config.n_layer == 3
    assert gpt2viz.load_model(link_to(folder)).config.n_layer == 3


def link_to(folder: Path) -> Path:
    """A link to the folder itself, which is allowed."""
    (folder.parent / "link").symlink_to(folder)
    return folder.parent / "link"


def test_named_pipe_is_refused(folder: Path) -> None:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    assert_refused(folder, "^config.json: not an ordinary file")


def test_oversized_text_files_are_refused(folder: Path) -> None:
    (folder / "vocab.json").write_text('{"a": "' + "x" * 20_000_000 + '"}', encoding="utf-8")
    assert_refused(folder, r"^vocab.json: can't be read \(more than 20 MB\)")
    (folder / "vocab.json").write_text('{"a": [' + "[]," * 1_000_000 + "[]]}", encoding="utf-8")
    assert_refused(folder, r"^vocab.json: can't be read \(more than 1,000,000 brackets\)")


@pytest.mark.parametrize(
    "name", ["../model.safetensors", "gone.safetensors", "/etc/passwd", "..", ""]
)
def test_index_may_only_name_files_in_its_folder(folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"transformer.wte.weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert_refused(folder, f"'{name}' is not a file in")


def test_the_model_is_in_eval_mode_and_frozen(tiny: gpt2viz.Model) -> None:
    assert not tiny.network.training
    assert not any(weight.requires_grad for weight in tiny.network.parameters())
    assert tiny.network.lm_head.weight is tiny.network.wte.weight
