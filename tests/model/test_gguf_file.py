"""GGUF files: headers are checked, and weights equal those that the gguf package unpacks."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader, GGUFWriter, quants

import gpt2viz
from gpt2viz import settings
from gpt2viz.cli import serve
from gpt2viz.model import gguf_file, weights
from gpt2viz.model.gguf_file import read_config, read_header
from tests.gguf_files import close, write_gguf

SIZES: dict[str, Any] = {
    "context_length": 32,
    "embedding_length": 16,
    "block_count": 2,
    "feed_forward_length": 24,
    "attention.head_count": 4,
}
GPT2 = SIZES | {"attention.layer_norm_epsilon": 1e-5}
LLAMA = SIZES | {
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 500_000.0,
}
FAMILIES = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "qwen2": LLAMA,
    "qwen3": LLAMA | {"attention.key_length": 8, "attention.value_length": 8},
}


def reference_model(family: str, **changes: Any) -> Any:
    """A tiny transformers model of the sizes above, with random weights."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes: dict[str, Any] = {"vocab_size": 16, "tie_word_embeddings": True, "n_inner": 24}
    sizes |= {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    if family == "gpt2":
        sizes |= {"max_position_embeddings": 32}
    else:
        sizes |= {"max_position_embeddings": 32, "intermediate_size": 24}
        sizes |= {"num_key_value_heads": 2, "rms_norm_eps": 1e-5}
        sizes |= {"rope_parameters": {"rope_theta": 500_000.0, "rope_type": "default"}}
        sizes |= {"head_dim": 8} if family == "qwen3" else {}
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **sizes | changes)
    model = AutoModelForCausalLM.from_config(config).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return model


def stored_weights(model: Any) -> dict[str, torch.Tensor]:
    """The weights that a file stores: no tied head."""
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    return {name: w for name, w in model.state_dict().items() if name not in tied}


def write_model(tmp_path: Path, family: str, **changes: Any) -> tuple[Path, Any]:
    model = reference_model(family, **changes)
    file = tmp_path / f"{family}.gguf"
    return write_gguf(file, family, FAMILIES[family], stored_weights(model), n_layers=2), model


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_logits_equal_transformers(tmp_path: Path, family: str, tied: bool) -> None:
    file, model = write_model(tmp_path, family, tie_word_embeddings=tied)
    ours = gpt2viz.load_model(str(file))
    assert (ours.name, ours.config.n_positions) == (family, 32)
    assert ours.config.tie_word_embeddings == tied
    ids = ours.tokenizer.encode("ab  abc12")
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits.numpy()
    np.testing.assert_allclose(gpt2viz.trace(ours, ids).logits, expected, rtol=1e-4, atol=1e-4)


def test_missing_tensor_and_wrong_sizes_are_named(tmp_path: Path) -> None:
    weights = stored_weights(reference_model("gpt2"))
    wide = GPT2 | {"attention.head_count": 5}
    for sizes, lacking, why in (
        (
            GPT2,
            "transformer.h.1.mlp.c_fc.bias",
            r"h\.1\.mlp\.c_fc\.bias \(24,\), which x\.gguf asks",
        ),
        (wide, "", r"x\.gguf: n_embd \(16\) must be a multiple of n_head \(5\)"),
    ):
        rest = {name: weight for name, weight in weights.items() if name != lacking}
        file = write_gguf(tmp_path / "x.gguf", "gpt2", sizes, rest, n_layers=2)
        with pytest.raises(gpt2viz.CheckpointError, match=why):
            gpt2viz.load_model(file)


def test_every_quantisation_type_is_unpacked(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0)
    writer, kinds = GGUFWriter(tmp_path / "x.gguf", "llama"), []
    for kind in GGMLQuantizationType:
        count, nbytes = GGML_QUANT_SIZES[kind]
        try:
            quants.dequantize(np.zeros((1, nbytes), np.uint8), kind)
        except NotImplementedError:
            continue
        # At most 0x3333, so that no exponent is infinite.
        content = numbers.integers(0, 256, (35, 3 * nbytes), np.uint8) & 0x33
        if count == 1:
            content = content.view({4: np.float32, 2: np.float16}[nbytes])
            content = content.view(np.uint16) if kind.name == "BF16" else content
        plain = content if kind.name in ("F32", "F16") else content.view(np.uint8)
        writer.add_tensor(f"t{kind.value}", plain, raw_dtype=kind)
        kinds.append(kind.name)
    close(writer)
    known = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K TQ1_0 TQ2_0 IQ4_NL"
    assert {*known.split(), "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ3_S", "IQ4_XS"} <= {*kinds}
    ours = weights.read(read_header(tmp_path / "x.gguf").tensors)
    for tensor in GGUFReader(tmp_path / "x.gguf").tensors:
        expected = quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(ours[tensor.name].numpy(), expected), tensor.tensor_type.name
        assert expected.any()


def text(content: str) -> bytes:
    return struct.pack("<Q", len(content.encode())) + content.encode()


def tensor(name: str, size: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(size)}QIQ", len(size), *size, kind, offset)


ARCHITECTURE = text("general.architecture") + struct.pack("<I", 8) + text("llama")
DATA = bytes(64)


def header(n_tensors: int, n_values: int, *parts: bytes, begin: bytes = b"GGUF\3\0\0\0") -> bytes:
    content = begin + struct.pack("<QQ", n_tensors, n_values) + b"".join(parts)
    return content + bytes(-len(content) % 32)


BAD_HEADERS = {
    "empty": (b"", "are announced where 0 bytes"),
    "another file": (b"PK\3\4" * 9, "doesn't begin with GGUF"),
    "an old version": (header(0, 0, begin=b"GGUF\1\0\0\0"), "version 1 of the format"),
    "big-endian": (header(0, 0, begin=b"GGUF\0\0\0\3"), "version 50331648"),
    "cut off": (header(0, 1, ARCHITECTURE)[:40], "are announced where"),
    "many tensors": (header(10**9, 1, ARCHITECTURE), "1,000,000,000 entries"),
    "many values": (header(0, 2**63, ARCHITECTURE), "9,223,372,036,854,775,808 entries"),
    "no family": (header(0, 0), "it has no 'general.architecture'"),
    "a long key": (header(0, 1, struct.pack("<Q", 10**12)), "1e[+]03 GB|1,000 GB"),
    "a long list": (
        header(0, 1, text("k"), struct.pack("<IIQ", 9, 4, 2**40), DATA),
        "1,099,511,627,776 entries",
    ),
    "a list of lists": (
        header(0, 1, text("k"), struct.pack("<IIQ", 9, 9, 1), DATA),
        "a value of the type 9",
    ),
    "half a character": (
        header(0, 1, struct.pack("<Q", 1) + b"\xff", DATA),
        "can't decode byte 0xff",
    ),
    "an unknown type": (
        header(1, 1, ARCHITECTURE, tensor("t", (8,), 77)) + DATA,
        "t is of the type 77, which can't be unpacked",
    ),
    "a type of whole numbers": (
        header(1, 1, ARCHITECTURE, tensor("t", (8,), 26)) + DATA,
        "t is of the type 26",
    ),
    "rows of half a block": (
        header(1, 1, ARCHITECTURE, tensor("t", (8, 4), 2)) + DATA,
        "t has rows of 8, no multiple of 32",
    ),
    "too large": (header(1, 1, ARCHITECTURE, tensor("t", (17,))) + DATA, "t ends at byte"),
    "somewhere else": (
        header(1, 1, ARCHITECTURE, tensor("t", (8,), 0, 32)) + DATA,
        "t starts at byte 160, not 128",
    ),
    "one over another": (
        header(2, 1, ARCHITECTURE, tensor("t", (8,)), tensor("u", (8,))) + DATA,
        "u starts at byte",
    ),
    "twice": (
        header(2, 1, ARCHITECTURE, tensor("t", (8,)), tensor("t", (8,), 0, 32)) + DATA,
        "t is there twice",
    ),
    "many dimensions": (
        header(1, 1, ARCHITECTURE, tensor("t", (1,) * 9)) + DATA,
        "t has 9 dimensions",
    ),
    "a name of many lines": (
        header(1, 1, ARCHITECTURE, tensor("t\n", (8,))) + DATA,
        r"a tensor is called 't\\n'",
    ),
    "a strange alignment": (
        header(0, 2, ARCHITECTURE, text("general.alignment"), struct.pack("<II", 4, 0)),
        "general.alignment is 0",
    ),
    "heads that don't fit": (
        header(
            1,
            2,
            ARCHITECTURE,
            text("llama.attention.head_count"),
            struct.pack("<II", 4, 3),
            tensor("blk.0.attn_q.weight", (2, 4)),
        )
        + DATA,
        "blk.0.attn_q.weight has 4 rows for 3 heads",
    ),
}


@pytest.mark.parametrize(("content", "why"), BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_bad_header_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(content)
    with pytest.raises(gpt2viz.CheckpointError, match=f"^x.gguf: .*{why}") as refusal:
        read_header(file)
    assert "\n" not in str(refusal.value)


def test_unsupported_family_is_refused_by_name(tmp_path: Path) -> None:
    close(GGUFWriter(tmp_path / "x.gguf", "gemma3"))
    with pytest.raises(gpt2viz.CheckpointError, match="'gemma3'; only gpt2, llama, qwen2, qwen3"):
        read_header(tmp_path / "x.gguf")


def test_missing_sizes_are_refused(tmp_path: Path) -> None:
    close(GGUFWriter(tmp_path / "x.gguf", "llama"))
    with pytest.raises(gpt2viz.CheckpointError, match=r"^x\.gguf: its config can't be read"):
        read_config(tmp_path / "x.gguf")


def config(tmp_path: Path, *, tensors: dict[str, torch.Tensor] | None = None, **values: Any) -> Any:
    sizes = LLAMA | {key.replace("__", "."): value for key, value in values.items()}
    table = {"model.embed_tokens.weight": torch.ones(15, 16), **(tensors or {})}
    file = write_gguf(tmp_path / "x.gguf", "llama", sizes, table)
    return read_config(file)


def test_sliding_window_means_mistral(tmp_path: Path) -> None:
    ours = config(tmp_path, attention__sliding_window=7)
    assert (ours["model_type"], ours["sliding_window"]) == ("mistral", 7)


def test_linear_rope_scaling_is_read(tmp_path: Path) -> None:
    ours = config(tmp_path, rope__scaling__type="linear", rope__scaling__factor=2.5)
    assert ours["rope_scaling"] == {"rope_type": "linear", "factor": 2.5}


def test_partial_rotary_embedding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(gpt2viz.CheckpointError, match="2 of 4 channels of a head"):
        config(tmp_path, rope__dimension_count=2, attention__key_length=4)


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama_3_rope_scaling_is_read_from_its_tensor(tmp_path: Path, factor: float) -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling = {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0}
    scaling |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    hf_config = LlamaConfig(head_dim=64, rope_parameters={"rope_theta": 5e5, **scaling})
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](hf_config, torch.device("cpu"))
    plain = 1 / 5e5 ** (torch.arange(0, 64, 2) / 64)
    divisors = plain / scaled
    hs = {"attention__key_length": 64, "rope__dimension_count": 64}
    ours = config(tmp_path, tensors={"rope_freqs.weight": divisors}, **hs)
    assert ours["rope_scaling"] == scaling
    model = reference_model("llama", head_dim=64, rope_parameters={"rope_theta": 5e5, **scaling})
    file = write_gguf(
        tmp_path / "x.gguf",
        "llama",
        LLAMA | {"attention.key_length": 64},
        stored_weights(model) | {"rope_freqs.weight": divisors},
        n_layers=2,
    )
    ids = [4, 3, 7, 4, 0] * 6
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits.numpy()
    run = gpt2viz.trace(gpt2viz.load_model(file), ids)
    np.testing.assert_allclose(run.logits, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(gpt2viz.CheckpointError, match=r"rope_freqs\.weight isn't Llama 3's"):
        config(tmp_path, tensors={"rope_freqs.weight": divisors**2}, **hs)


def test_nonfinite_weight_is_refused(tmp_path: Path) -> None:
    table = torch.ones(15, 16)
    table[3, 5] = torch.nan
    file = write_gguf(tmp_path / "x.gguf", "llama", LLAMA, {"model.embed_tokens.weight": table})
    with pytest.raises(gpt2viz.CheckpointError, match=r"^x.gguf: token_embd.weight holds nan at"):
        weights.read(read_header(file).tensors)


def test_link_in_the_hubs_cache_keeps_its_name(tmp_path: Path) -> None:
    file, _ = write_model(tmp_path, "llama")
    repository = tmp_path / "models--someone--tiny"
    for name in ("blobs", "snapshots/abc"):
        (repository / name).mkdir(parents=True)
    file.rename(repository / "blobs" / "1234")
    link = repository / "snapshots" / "abc" / "tiny-q4.gguf"
    link.symlink_to("../../blobs/1234")
    assert settings.name_paths([link])["tiny-q4"] == link
    (given,) = serve.check_folders([str(link)])
    assert gpt2viz.load_model(serve.app_arguments([given], [])[1]).name == "tiny-q4"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x.gguf").symlink_to(repository / "blobs" / "1234")
    with pytest.raises(gpt2viz.CheckpointError, match=r"^x\.gguf: a link that leads out"):
        gpt2viz.load_model(tmp_path / "mine" / "x.gguf")


def test_changed_file_is_read_again(tmp_path: Path) -> None:
    assert config(tmp_path, block_count=2)["num_hidden_layers"] == 2
    assert config(tmp_path, block_count=11)["num_hidden_layers"] == 11


def test_missing_gguf_package_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_gguf(tmp_path / "x.gguf", "llama", LLAMA, {"model.norm.weight": torch.ones(16)})
    gguf_file._type.cache_clear()
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(gpt2viz.MissingExtraError, match=r"pip install 'gpt2viz\[gguf\]'"):
        read_header(file)
