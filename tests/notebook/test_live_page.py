"""The page that runs a model: its numbers beside NumPy's, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose
from safetensors.numpy import save_file

import gpt2viz
from gpt2viz.app.frame.examples import EXAMPLES
from gpt2viz.cli import main
from gpt2viz.errors import CheckpointError, TooLargeError
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.model.packed import pack
from gpt2viz.model.weights import CONV1D
from gpt2viz.notebook import live_page as page
from gpt2viz.run.stages import STAGE
from tests.bundled import bundled_model
from tests.checkpoints import write_checkpoint
from tests.js.test_scripts import HERE, run
from tests.llama_checkpoints import write_llama
from tests.model.test_tokenizer import TEXTS
from tests.numpy_gpt2 import reference, softmax

OTHER: dict[str, Any] = {
    "activation_function": "relu",
    "scale_attn_by_inverse_layer_idx": True,
    "tie_word_embeddings": False,
    "n_inner": 13,
}
WORDS = (BUNDLED / "sample.txt").read_text(encoding="utf-8").split()
#: The app's sentences, those of ten scripts and hostile ones, pieces of stories, and the longest.
SENTENCES = [
    *(example.text for example in EXAMPLES),
    *filter(None, TEXTS),
    *(" ".join(WORDS[start : start + n + 1]) for n, start in enumerate(range(0, 480, 20))),
    " ".join(["a"] * 256),
]


def rounded(model: gpt2viz.Model, folder: Path, out: Path) -> Path:
    """A model of a folder with the weights that a page of it has, as a checkpoint."""
    tensors = {
        name: np.ascontiguousarray(w.numpy().T if name.endswith(CONV1D) else w.numpy())
        for name, w in pack(model).model.network.state_dict().items()
    }
    out.mkdir()
    save_file(tensors, out / "model.safetensors")
    (out / "config.json").write_bytes((folder / "config.json").read_bytes())
    return out


def runs(made: Path, texts: list[str], out: Path) -> list[tuple[str, bool, dict[str, Any], Path]]:
    """Each text's run by the page's own scripts, with the mask and without."""
    (out / "texts.json").write_text(json.dumps(texts))
    answer = run(HERE / "live_runs.js", made, out / "texts.json", out)
    assert not answer.returncode, answer.stderr
    return [
        (text, causal, json.loads(file.with_suffix(".json").read_text()), file)
        for n, text in enumerate(texts)
        for causal in (True, False)
        for file in [out / f"{n}-{str(causal).lower()}.bin"]
    ]


@pytest.mark.parametrize("which", ["stories", "small"])
def test_a_page_computes_what_numpy_does_with_its_weights(which: str, tmp_path: Path) -> None:
    folder, texts = BUNDLED, SENTENCES
    if which == "small":  # with all that the bundled model hasn't
        folder = write_checkpoint(tmp_path / "small", **OTHER)
        texts = ["A crane ate fish", "ate"]
    model = gpt2viz.load_model(folder)
    made = gpt2viz.write_page(model, tmp_path / "page.html", "ate fish")
    of_page = rounded(model, folder, tmp_path / "rounded")
    config, stages = model.config, [key for row in page.ROWS.values() for key in row]
    for text, causal, answer, file in runs(made, texts, tmp_path):
        ids = answer["ids"]
        assert ids == model.tokenizer.encode(text)
        assert answer["text"] == text
        expected = reference(of_page, ids, causal)
        pairs = config.n_layer, config.n_head, len(ids), len(ids)
        hs = config.n_embd // config.n_head
        shapes = [pairs if STAGE[key].of_pairs else (*pairs[:3], hs) for key in stages]
        ends = np.cumsum([np.prod(shape[2:]) for shape in shapes])
        of_heads = np.fromfile(file, "<f4").reshape(*pairs[:2], ends[-1])
        for key, shape, part in zip(stages, shapes, np.split(of_heads, ends[:-1], -1), strict=True):
            exact = np.stack(expected[key])
            assert_allclose(part.reshape(shape), exact, rtol=1e-5, atol=1e-4, err_msg=text)
        after = softmax(expected["logits"][-1])
        assert_allclose(answer["probabilities"], after, atol=1e-4)
        assert [entry["id"] for entry in answer["likeliest"]] == likeliest(answer["probabilities"])
        own = softmax(reference(folder, ids, causal)["logits"][-1])
        assert_allclose(after, own, atol=2e-2, err_msg=text)
        for n, next_id in enumerate(answer["after"]):
            logits = reference(of_page, [*ids, *answer["after"][:n]], causal)["logits"][-1]
            assert logits[next_id] >= logits.max() - 1e-3


def likeliest(probabilities: list[float]) -> list[int]:
    return np.argsort(-np.asarray(probabilities), kind="stable")[:5].tolist()


def test_a_page_can_be_mailed(tmp_path: Path) -> None:
    made = gpt2viz.write_page(bundled_model(), tmp_path / "page.html")
    assert made.stat().st_size < 6_000_000
    text = made.read_text(encoding="utf-16")
    assert "default-src 'none'" in text
    assert "connect-src" not in text
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)


def test_what_a_page_cannot_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_checkpoint(tmp_path / "exact", activation_function="gelu")
    with pytest.raises(CheckpointError, match="activation gelu, which a page lacks"):
        gpt2viz.write_page(gpt2viz.load_model(folder), tmp_path / "page.html")
    monkeypatch.setattr(page, "LARGEST", 1_000_000)
    with pytest.raises(TooLargeError, match="stories would take 5 MB in a page; at most 1 MB"):
        gpt2viz.write_page(bundled_model(), tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_model_of_another_family_is_refused(tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "llama")
    with pytest.raises(CheckpointError, match="no GPT-2, and a page runs no other"):
        gpt2viz.write_page(gpt2viz.load_model(folder), tmp_path / "page.html")
    answer = CliRunner().invoke(main, ["page", "--model", str(folder), "--out", "x.html"])
    assert answer.exit_code == 1
    assert "no GPT-2" in answer.stderr
