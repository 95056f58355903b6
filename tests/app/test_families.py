"""Every page with models of Llama's family: shared keys, RoPE and other norms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import pathsep
from pathlib import Path

import numpy as np
import pytest
import streamlit as st
from numpy.testing import assert_allclose

import gpt2viz
from gpt2viz import figures, settings
from gpt2viz.app import run_cache
from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.app.views.models import SECTIONS
from gpt2viz.pictures.find import pattern_panel
from gpt2viz.pictures.from_trace import one_head, stage_panel, weights_measure
from gpt2viz.run.hooks import network_graph
from tests.app.cases import each
from tests.app.chapters import links, matrix
from tests.app.pages import VIEWS, chart, chips, data_of, matrices, open_page, page_text, pictures
from tests.llama_checkpoints import FAMILIES, write_llama
from tests.numpy_llama import read, reference

#: Every page with each of its modes, each section of Models, each chapter that reads a sentence.
OPENED = (
    *VIEWS,
    *(f"models?part={part}" for part in SECTIONS),
    *(f"textbook?chapter={name}" for name, chapter in CHAPTERS.items() if chapter.sentence),
)
#: The chapters on parts of this family, which end with a real model's numbers.
LLAMA_CHAPTERS = ("rmsnorm", "swiglu", "rope", "grouped")


@pytest.fixture(scope="module", autouse=True)
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tiny models of two families, listed by the owner, in folders below this one.

    ``window`` is a third, whose layers 1 and 2 have a window of 3 keys.
    """
    folder = tmp_path_factory.mktemp("families")
    paths = [write_llama(folder / name, **FAMILIES[name]) for name in ("llama", "qwen3")]
    paths.append(write_llama(folder / "window", **FAMILIES["qwen2, a window in deeper layers"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(settings.MODELS_VARIABLE, pathsep.join(map(str, paths)))
        st.cache_data.clear()
        st.cache_resource.clear()
        yield folder
    st.cache_data.clear()
    st.cache_resource.clear()


#: Words for parts of GPT-2 that these models don't have.
GPT2_WORDS = re.compile(
    r"LayerNorm|GELU|qkv|dropout|\bwpe\b|b_O|places? has a vector|GPT-2's|position embedding"
    r"|position and its context are added|bias and MLP|norms, the MLP's curve"
)


#: Pages that show or count a model's own stages: qwen3 has llama's and two more.
STAGE_PAGES = ("head", "shapes", "models", *(f"textbook?chapter={name}" for name in LLAMA_CHAPTERS))


@each(
    ("model", "address"),
    [
        *(("qwen3", page) for page in OPENED),
        *(("llama", page) for page in OPENED if page.startswith(STAGE_PAGES)),
    ],
)
def test_every_page_opens_and_names_no_absent_part(model: str, address: str) -> None:
    """A chapter on parts that the model lacks uses the bundled one, and says so."""
    at = open_page(address, model=model, text="the cat sat on the mat")
    assert not at.error, [block.value for block in at.error]
    if not address.startswith("textbook"):
        assert not GPT2_WORDS.findall(" ".join([page_text(at), *pictures(at).values()]))
    elif chapter := CHAPTERS.get(address.removeprefix("textbook?chapter=")):
        lacks = set(chapter.stages.split()) - network_graph(run_cache.load(model).network).keys()
        assert ("the bundled model, stories, reads your sentence" in page_text(at)) == bool(lacks)
        assert ("·cat" in chips(at)["labels"]) == bool(lacks)  # llama's tokens are single bytes


def test_chapter_links_use_the_models_own_names() -> None:
    at = open_page("textbook?chapter=residual", model="llama", layer="1")
    filters = [link["filter"] for link in links(at, "shapes") if "filter" in link]
    assert filters == ["layers.1.residual"]


#: A number with decimals.
NUMBER = re.compile(r"-?\d+\.\d+")


@each("model", ("llama", "qwen3"))
def test_chapters_on_the_family_show_the_models_numbers(model: str, models: Path) -> None:
    text, layer, head, n = "the cat sat on the mat", 1, 4, 9
    chosen = {"text": text, "layer": f"{layer}", "head": f"{head}", "query": f"{n}"}
    at = {c: open_page(f"textbook?chapter={c}", model=model, **chosen) for c in LLAMA_CHAPTERS}
    written = {name: page_text(page).replace("−", "-") for name, page in at.items()}
    oracle, block = read(models / model), f"model.layers.{layer}"
    ids = gpt2viz.load_model(models / model).tokenizer.encode(text)
    steps = reference(oracle, ids)

    x = steps["residual_out"][layer - 1][n]
    normed = oracle.norm(x, f"{block}.input_layernorm")
    rms = np.sqrt((x**2).mean() + 1e-5)
    expected = [x[:8], x[:8] / rms, normed[:8]]
    assert_allclose(matrix(at["rmsnorm"], "real_norm"), expected, atol=1e-5)
    assert f"root mean square, **{rms:.3f}**" in written["rmsnorm"]
    mean = f"{x.mean():.3f} before the division and **{(x / rms).mean():.3f}** after it"
    assert mean in written["rmsnorm"]

    x = oracle.norm(steps["residual_mid"][layer][n], f"{block}.post_attention_layernorm")
    gate, up = (oracle.linear(x, f"{block}.mlp.{name}_proj") for name in ("gate", "up"))
    activated = gate / (1 + np.exp(-gate))
    best = np.argsort(-abs(activated * up))[:8]
    expected = [part[best] for part in (gate, activated, up, activated * up)]
    assert_allclose(matrix(at["swiglu"], "real_gate"), expected, atol=1e-5)
    most = f"Channel {best[0]} passes most, **{expected[-1][0]:.3f}**"
    assert most in written["swiglu"]
    assert f"in {100 * (gate < 0).mean():.0f} % of all" in written["swiglu"]

    key = int(steps["weights"][layer][head, n].argmax())
    q, k = (steps[f"{part}_unrotated"][layer] for part in "qk")
    before, after = q[head, n] @ k[head // 3, key], steps["scores"][layer][head, n, key]
    goes = f"{n - key} tokens away. The turn by that distance takes q · k from {before:.3f} to"
    assert key < n - 1
    assert f"{goes} **{after:.3f}**" in written["rope"]
    assert links(at["rope"], "head")[-1]["key"] == f"{key}"

    hs, T = oracle.config["head_dim"], len(ids)
    few, many = (2 * 3 * groups * T * hs * 4 for groups in (oracle.sizes[1], 6))
    assert f"your {T} tokens takes **{few:,} bytes**" in written["grouped"]
    assert f"With a group for each head it would be {many:,}" in written["grouped"]
    assert "in 2 groups: heads 0 to 2 and 3 to 5 share" in written["grouped"]


def test_links_of_these_chapters_lead_to_their_numbers() -> None:
    chosen = {"text": "the cat sat on the mat", "layer": "1", "head": "4", "query": "9"}
    at = {c: open_page(f"textbook?chapter={c}", model="llama", **chosen) for c in LLAMA_CHAPTERS}
    cell, map_of_heads = links(at["rope"], "head")[-1], links(at["grouped"], "")[-1]
    assert (map_of_heads["layer"], map_of_heads["head"]) == (cell["layer"], cell["head"])
    assert (cell["layer"], cell["head"], cell["query"]) == ("1", "4", "9")
    parts = data_of(open_page("head", **cell), "written_sum")["parts"]
    (arrow,) = (part["text"] for part in parts if "turned" in part.get("text", ""))
    texts = arrow.partition("q·k")[2], page_text(at["rope"]).partition("takes q · k")[2]
    on_head, here = ([float(n) for n in NUMBER.findall(t.replace("−", "-"))][:2] for t in texts)
    assert_allclose(here, on_head, atol=1e-3)
    for name, stages in (("rmsnorm", {"ln_1"}), ("swiglu", {"mlp_gate", "mlp_up", "mlp_act"})):
        (requested,) = (link for link in links(at[name], "shapes") if "filter" in link)
        (table,) = (frame.value for frame in open_page("shapes", **requested).dataframe)
        assert stages <= set(table["key"])
        assert set(table["layer"]) == {1}


@each("name", LLAMA_CHAPTERS)
def test_chapter_without_a_fitting_model_explains_how_to_add_one(
    name: str, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = open_page(f"textbook?chapter={name}", text="the cat", model="stories")
    assert page_text(at).count("`make run WITH=smollm2` adds one") == 1
    assert not [box for box in at.text_input if box.key == "text"]
    packaged = {"Packaged": write_llama(models / "packaged")}
    monkeypatch.setattr(settings, "packaged_models", lambda: packaged)
    run_cache._folders.cache_clear()
    at = open_page(f"textbook?chapter={name}", text="the cat", model="stories")
    run_cache._folders.cache_clear()
    assert "make run" not in page_text(at)
    assert "that stories doesn't have, so Packaged reads your sentence here." in page_text(at)
    pages = {"rope": "head", "grouped": ""}
    assert links(at, pages.get(name, "shapes"))[-1]["model"] == "Packaged"


def test_scores_by_distance_and_the_effect_of_rotation(models: Path) -> None:
    """Checked with complex numbers: a rotation multiplies a channel pair by e^(i · angle)."""
    text, layer, head, query, key = "the cat sat on the mat", 1, 4, 9, 7
    chosen = {"layer": f"{layer}", "head": f"{head}", "query": f"{query}", "key": f"{key}"}
    at = open_page("head?see=run", model="llama", text=text, **chosen)
    run = gpt2viz.trace(gpt2viz.load_model(models / "llama"), text)
    q = run.stage("q_unrotated", layer, head)[query]
    k = run.stage("k_unrotated", layer, head)[key]
    a, b = (x.astype(float)[:2] + 1j * x[2:] for x in (q, k))  # 4 channels
    speeds = np.array([1.0, 0.1])  # 100^(−2i/4)
    for curve in chart(at, "distances")["data"]:
        distances = curve["x"]
        expected = (a * np.exp(1j * speeds * distances[:, None]) * b.conj()).sum(axis=1).real / 2
        assert_allclose(curve["y"], expected, atol=1e-5)
    assert curve["name"] == "2 back, as here"
    assert_allclose(curve["y"], run.stage("scaled_scores", layer, head)[query, key], 1e-4)
    parts = data_of(at, "written_sum")["parts"]
    (arrow,) = (part["text"] for part in parts if "turned" in part.get("text", ""))
    after = run.stage("scores", layer, head)[query, key]
    goes = f"turned by their positions, 9 and 7: q·k goes from {q @ k:.4f} to {after:.4f}"
    assert arrow == goes.replace("-", "−")
    words = page_text(at)
    assert words.count("shared with heads 3, 5") == 2, "K and V"
    assert "Queries before their turn" in words


@each(("model", "turns"), [("llama", True), ("stories", False)])
def test_scores_by_weights_alone_are_at_distance_0(model: str, turns: bool) -> None:
    at = open_page("head?see=weights", model=model, text="the cat")
    (tip,) = (block.help for block in at.markdown if "through W_V" in (block.help or ""))
    assert ("W_K, at distance 0." in tip) == turns


def test_window_of_a_layer_is_named_as_a_mask(tmp_path: Path) -> None:
    family = FAMILIES["qwen2, a window in deeper layers"]
    run = gpt2viz.trace(gpt2viz.load_model(write_llama(tmp_path, **family)), "the cat")
    for layer, name, why, formula in (
        (0, "masked (a later key)", "this key comes later", "−∞ for later keys"),
        (
            1,
            "masked (a later key, or outside the layer's window)",
            "this key comes later or it is outside the layer's window",
            "−∞ for later keys; −∞ for keys 3 away or more",
        ),
    ):
        for panel in (
            stage_panel(run, run.labels, "masked_scores", layer, 2, ""),
            one_head(weights_measure(run, run.labels, layer), 2, "", ""),
        ):
            assert panel.masked_name == name
            assert panel.masked_text.endswith(f"because {why}")
        record = run.record("masked_scores", layer)
        assert record is not None
        assert record.operation == formula
    of_layer_0 = pattern_panel(np.eye(len(run.tokens), dtype=bool), run)
    assert of_layer_0.masked_name == "masked (a later key)"


_LATER, _FAR = ("comes after the query", "The mask"), ("is outside", "The layer's window")


@each(("key", "causal", "reason"), [(5, "true", _LATER), (0, "true", _FAR), (0, "false", _FAR)])
def test_hidden_cell_names_what_hides_it(key: int, causal: str, reason: tuple[str, str]) -> None:
    chosen = {"text": "the cat", "layer": "1", "query": "4", "key": f"{key}", "causal": causal}
    at = open_page("head?see=run", model="window", **chosen)
    assert {"x·W_Q + b_Q", "x·W_V + b_V"} <= set(re.findall(r"x·W[^]]+", page_text(at))), "qwen2's"
    assert max(chart(at, "distances")["data"][0]["x"]) == max(4 - key, 2), "as far as it sees"
    parts = data_of(at, "written_sum")["parts"]
    (arrow,) = (part["text"] for part in parts if "masked" in part.get("text", ""))
    assert arrow.startswith(f"masked, as this key {reason[0]}")
    why = open_page("head?see=why", model="window", **chosen)
    assert f"{reason[1]} hides this key from this query" in page_text(why)


def test_mask_is_described_for_the_chosen_layer() -> None:
    chosen = {"text": "the cat", "layer": "1", "query": "4"}
    words = page_text(open_page("side_by_side?differs=mask", model="window", **chosen))
    assert "Who may see whom in layer 1?" in words
    assert re.search(r"\(4\) sees itself and \S+ \(2\), \S+ \(3\). It can't see \S+ \(0\)", words)


def test_windows_mask_only_their_own_layers(models: Path, tmp_path: Path) -> None:
    at = open_page("attention", model="window", text="the cat", layer="1")
    with pytest.raises(AssertionError, match="head_numbers: 0"):  # the browser has a single mask
        data_of(at, "head_numbers")
    family = FAMILIES["qwen3, biases, a window in one layer"] | {"num_hidden_layers": 2}
    family |= {"layer_types": ["sliding_attention", "full_attention"]}
    folders = models / "window", write_llama(tmp_path, **family)
    first, other = (gpt2viz.trace(gpt2viz.load_model(folder), "the cat") for folder in folders)
    for run, hidden in (
        (first, [head.masked for head in matrices(at, "all_heads")]),
        (other, [head.masked for head in figures._every_head(other).matrices]),
    ):
        assert not np.concatenate(run.all_layers("weights")[:, 0])[np.array(hidden)].any()


@each(
    "address",
    (
        "what_if?what_if=depends&patch=patch:k:1.4",
        "what_if?what_if=depends&patch=patch:q:1.4",
        "find?find=wiring&edge=0.0:1.4:k&path=true",
    ),
)
def test_patch_of_shared_keys_names_the_other_heads(address: str) -> None:
    at = open_page(address, model="llama", text="the cat sat")
    shared = "The keys of 1.3, 1.5 are the same ones, and change too." in page_text(at)
    assert shared == (":q:" not in address)


def test_even_share_of_the_first_token_counts_only_visible_keys() -> None:
    words = page_text(open_page("textbook?chapter=sinks", model="window", text="hello"))
    assert "head 2.2 rests there most: the 3 tokens" in words
    assert "alike, it would be 0.28" in words.replace("\n", " ")  # (1/2 + 1/3 + 0) / 3


def test_tokens_without_text_are_named_by_id(models: Path) -> None:
    at = open_page("predict?predict=next", model="llama", text="the cat", explain="∅ 410")
    logit = gpt2viz.trace(gpt2viz.load_model(models / "llama"), "the cat").logits_at(-1)[410]
    assert f"the logit of “∅ 410” is **{logit:+.2f}".replace("-", "−") in page_text(at)


@each(("text", "layers"), [("abc", 0), ("abcd", 2)])
def test_cache_keeps_keys_outside_the_window(text: str, layers: int) -> None:
    """The cache has 3 layers, keys and values, 2 groups, 4 channels, at 4 bytes per number."""
    at = open_page("predict?predict=generate", model="window", text=text, cache="true")
    words = page_text(at)
    assert f"{3 * 2 * 2 * 4 * 4 * (len(text) - 1)} bytes" in words
    sentence = f"In {layers} layers a query sees only the last 3 tokens, the layer's window"
    assert words.count("the layer's window") == words.count(sentence) == bool(layers)
