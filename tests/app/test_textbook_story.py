"""The Textbook's story: the tiny crane's numbers, and the same step in the real model.

They are compared with NumPy, which shares no code with either, and links are followed.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app.course import why
from gpt2viz.model.checkpoint import BUNDLED
from tests.analysis.head_scores import expected_scores
from tests.app.chapters import (
    chapter,
    check_numbers,
    formula,
    formulas,
    joined,
    links,
    matrix,
    numbers,
    text_of,
)
from tests.app.pages import data_of, heatmaps, masks, matrices, open_page
from tests.bundled import CRANE, bundled_model, stages
from tests.checkpoints import write_checkpoint
from tests.numpy_gpt2 import ACTIVATIONS, read, softmax
from tests.textbook.oracle import hide, tiny_run, tiny_run_with, tiny_scores

LONG = "the bank of the river " * 12  # 60 tokens
#: By chapter, its pictures' panels with the oracle's names for them.
TINY = {
    "tokens": {"tiny_tokens": {"token vectors": "tokens"}},
    "order": {"tiny_order": {"token vectors": "tokens", "their sum x": "x"}},
    "crane": {"tiny_qkv": {"their sum x": "x"}, "tiny_means": {"their sum x": "x"}},
    "heads": {
        "tiny_merged": {"outputs, side by side": "merged", "what attention adds": "attention"}
    },
    "mlp": {
        "tiny_mlp": {"x + attention": "mid", "hidden layer": "widened"},
        "tiny_mlp_adds": {"after ReLU": "bent", "what the MLP adds": "mlp"},
    },
    "next-word": {
        "tiny_logits": {"all logits": "logits"},
        "tiny_chances": {"all probabilities": "probabilities"},
    },
    "project": {"tiny_project": {"all probabilities": "probabilities"}},
}


def prose(at: AppTest) -> str:
    return text_of(at).replace("\\", "")


def check_pictures(name: str, at: AppTest, steps: dict[str, np.ndarray]) -> None:
    for key, panels in TINY[name].items():
        result = heatmaps(at, key)
        for title, step in panels.items():
            assert_allclose(result[title], steps[step], atol=1e-4, err_msg=f"{name}: {title}")


def test_pictures_match_the_oracle() -> None:
    steps, at = tiny_run(), chapter("residual")
    for name in TINY:
        check_pictures(name, chapter(name), steps)
    parts = [steps[name][3] for name in ("tokens", "positions", "attention", "mlp", "end")]
    assert_allclose(matrix(at, "tiny_stream"), parts, atol=1e-5)
    (line,) = (text for text in formulas(at) if "thing: " in text)
    *added, total = (float(n) for n in re.findall(r"-?\d+\.\d+", line))
    assert_allclose([*added, total], [part[0] for part in parts], atol=5e-5)


def test_written_sums_of_fish_are_right() -> None:
    x = tiny_run()["x"]
    past = np.tri(4) / np.arange(1, 5)[:, None]  # equal weights of all words so far
    assert_allclose(matrix(chapter("crane"), "tiny_shares"), past, atol=1e-6)
    assert_allclose(heatmaps(chapter("crane"), "tiny_means")["shares · x"], past @ x, atol=1e-6)
    scores, written = [-9, 6, -12, 0], "\n".join(formulas(chapter("crane")))
    for word, key, score in zip(
        CRANE.split(), ("-1, -2", "2, 0", "0, -4", "2, -2"), scores, strict=True
    ):
        first, second = (f"({n})" if n < "0" else n for n in key.split(", "))
        assert rf"{word}: }} 3 \cdot {first} + 3 \cdot {second} = {score}" in written
    weights, written = (
        softmax(np.array(scores) / np.sqrt(2)),
        "\n".join(formulas(chapter("by-hand"))),
    )
    assert r"[-9,\; 6,\; -12,\; 0] / \sqrt{2} \approx [-6.36396" in written
    assert ",\\; ".join(f"{weight:.5f}" for weight in weights) in written
    mixture = formula(chapter("by-hand"), r"\text{mixture: weights} \cdot V ")
    check_numbers(mixture, weights @ [[-1, 1], [2, 0], [0, 2], [2, 1]])


def test_mask_hides_later_words_in_both_heads() -> None:
    x, later = tiny_run()["x"], ~np.tri(4, dtype=bool)
    scaled = tiny_scores(x)
    weights = softmax(hide(scaled[0]))
    for key, expected in (("tiny_scores", scaled[0]), ("tiny_weights", weights)):
        assert_allclose(matrix(chapter("mask"), key)[~later], expected[~later], atol=1e-5)
        assert_allclose(masks(chapter("mask"), key)[0], later)
    outputs = [
        [float(n) for n in re.findall(r"-?\d+\.\d+", line)]
        for line in "\n".join(formulas(chapter("mask"))).splitlines()
        if r": weights} \cdot V" in line
    ]
    assert_allclose(outputs, weights @ x[:, :2], atol=5.1e-5)
    for look, scores in zip(heatmaps(chapter("heads"), "tiny_heads").values(), scaled, strict=True):
        assert_allclose(look, softmax(hide(scores)), atol=1e-5)


#: The shape of each table of the tiny crane, by its name in the address.
SHAPES = {"tiny_words": (5, 4), "tiny_places": (4, 4), "tiny_merge": (4, 4)}
SHAPES |= {f"tiny_{part}{head}": (2, 4) for head in (0, 1) for part in "qkv"}
SHAPES |= {"tiny_widen": (3, 5), "tiny_back": (4, 3)}
EDITED = {
    name: np.random.default_rng(n).uniform(-1.5, 1.5, shape).round(2)
    for n, (name, shape) in enumerate(SHAPES.items())
}


@cache
def expected() -> dict[str, np.ndarray]:
    """The oracle's results from the edited tables."""
    names = {"words": "tokens", "places": "positions"}
    tables = {name.removeprefix("tiny_"): table for name, table in EDITED.items()}
    return tiny_run_with({names.get(name, name): table for name, table in tables.items()})


@cache
def open_edited(name: str) -> AppTest:
    """A chapter with every table of the tiny crane edited."""
    tables = {table: joined(values) for table, values in EDITED.items()}
    return open_page("textbook", chapter=name, **tables)


def test_later_steps_use_edited_tables() -> None:
    for name in ("crane", "heads", "mlp", "next-word"):
        check_pictures(name, open_edited(name), expected())
        assert not open_edited(name).warning
    for name, table in {"heads": "tiny_merge", "mlp": "tiny_widen"}.items():
        fields = data_of(open_edited(name), f"grid_{table}")["values"]
        assert_allclose(np.reshape(fields, SHAPES[table]), EDITED[table], atol=1e-7)
    positions = np.reshape(data_of(chapter("order"), "grid_tiny_places")["values"], (4, 4))
    assert_allclose(positions, tiny_run()["positions"], atol=1e-6)


def test_formulas_use_edited_tables() -> None:
    lines = "\n".join(formulas(open_edited("crane"))).splitlines()
    terms = [
        line.partition("fish and ")[2].partition(": } ")[2] for line in lines if "fish and " in line
    ]
    q, k = (expected()["x"] @ EDITED[f"tiny_{part}0"].T for part in "qk")
    for line, score in zip(terms, k @ q[3], strict=True):
        a, b, c, d, *_ = numbers(line)
        check_numbers(line[re.search(r"= |\\approx", line).start() :], a * b + c * d)  # type: ignore[union-attr]
        assert a * b + c * d == pytest.approx(score, abs=1e-4)
    lines = "\n".join(formulas(open_edited("mlp"))).splitlines()
    x = numbers(next(line for line in lines if r"\text{fish: } x" in line))
    neurons = np.maximum(np.append(x, 1) @ EDITED["tiny_widen"].T, 0)
    (line,) = (line for line in lines if "added: " in line)
    written, _, result = line.rpartition(r" \approx")
    check_numbers(rf"\approx{result}", neurons @ EDITED["tiny_back"].T)
    assert written.count(r"\cdot") == np.count_nonzero(neurons)
    each = [line.rpartition(r"\approx ")[2] for line in lines if r"\text{thing} " in line]
    assert_allclose([float(n) for n in each], neurons[neurons > 0], atol=1e-4)


#: Statements that only hold for the original tables.
STATEMENTS = {
    "crane": ("looks for whoever did", "−2 · action", "not an action"),
    "heads": ("one word back", "half the thing"),
    "mlp": ("a thing without an action",),
    "next-word": ("clock's numbers are 0", "“.” after “fish”"),
}


def test_statements_on_the_original_tables_vanish_with_edits() -> None:
    for name, texts in STATEMENTS.items():
        assert [text for text in texts if text not in prose(chapter(name))] == []
        assert [text for text in texts if text in prose(open_edited(name))] == []
    words = ("A", "crane", "ate", "fish", ".")
    for at, chances in (
        (chapter("next-word"), tiny_run()["probabilities"]),
        (open_edited("next-word"), expected()["probabilities"]),
    ):
        best = [words[n] for n in chances.argmax(axis=1)]
        guess = ", ".join(f"“{n}” after “{word}”" for n, word in zip(best, words[:4], strict=True))
        assert f"It expects {guess}" in prose(at)
        assert f"“{best[3]}” gets **{100 * chances[3].max():.1f} %**" in prose(at)
    q, k = (expected()["x"] @ EDITED[f"tiny_{part}0"].T for part in "qk")
    assert f"“{words[(k @ q[3]).argmax()]}” fits best." in prose(open_edited("crane"))


def test_text_for_tables_of_zeros() -> None:
    zeros = {name: joined(0 * table) for name, table in EDITED.items()}
    at = open_page("textbook", chapter="next-word", **zeros)
    everything = "“A”, “crane”, “ate”, “fish” and “.”"
    assert f"After “fish”, {everything} each get **20.0 %**" in prose(at)
    at = open_page("textbook", chapter="crane", **zeros)
    assert "“A”, “crane”, “ate” and “fish” fit best." in prose(at)
    at.button(key="tiny_reset").click().run()
    assert not set(EDITED) & set(at.query_params)
    assert "“crane” fits best: it is a thing, and not an action." in prose(at)


def test_unreadable_tables_keep_their_defaults() -> None:
    junk = {"tiny_words": "1,2", "tiny_places": ",".join(["x"] * 16), "tiny_k1": ""}
    junk |= {"tiny_q0": "nan,0,0,0,0,0,0,0", "tiny_merge": "11" + ",0" * 15}
    junk |= {"tiny_back": "inf" + ",0" * 11}
    at = open_page("textbook", chapter="next-word", **junk)
    (warning,) = at.warning
    assert warning.value.count("can't be shown here") == len(junk)
    assert "16 numbers from −10 to 10" in warning.value
    assert_allclose(heatmaps(at, "tiny_logits")["all logits"], tiny_run()["logits"], atol=1e-5)
    assert not set(junk) & set(at.query_params)


def link(at: AppTest, page: str, name: str) -> dict[str, str]:
    """The parameters of the only link to a page that has a parameter called ``name``."""
    (result,) = (query for query in links(at, page) if name in query)
    return result


def test_link_opens_the_cell_with_the_stated_weight(subtests: pytest.Subtests) -> None:
    for text, causal in (("A", True), (CRANE, False), (LONG, True)):
        with subtests.test(text):
            at = open_page("textbook", chapter="mask", text=text, causal=str(causal).lower())
            requested = link(at, "head", "key")
            layer, head, query, key = (int(requested[n]) for n in ("layer", "head", "query", "key"))
            weights = stages(text, causal)["weights"][layer][head]
            assert query == len(weights) - 1
            assert weights[query].max() == pytest.approx(weights[query, key], rel=1e-4)
            assert f"**{weights[query, key]:.3f}**" in prose(at)
            head_page = open_page(
                "head", **{name: requested[name] for name in requested if name != "chapter"}
            )
            assert not head_page.warning
            label = gpt2viz.trace(bundled_model(), text).labels[query]
            assert f"query {label} ({query}), key" in prose(head_page)
            assert_allclose(heatmaps(head_page, "stage_weights")["weights"], weights, atol=1e-5)


def check_neurons(at: AppTest, results: dict[str, Any], n: int) -> None:
    """Layer 2's eight strongest neurons, and what these, the others and the bias add."""
    checkpoint, mid = read(BUNDLED), results["residual_mid"][2][n]
    widened = checkpoint.linear(checkpoint.norm(mid, "h.2.ln_2"), "h.2.mlp.c_fc")
    activations = ACTIVATIONS[checkpoint.config["activation_function"]](widened)
    best = np.argsort(-abs(activations))[:8]
    columns = matrices(at, "real_neurons")[0].grid["columns"]
    assert columns == [f"{rank} {neuron}" for rank, neuron in enumerate(best)]
    assert_allclose(matrix(at, "real_neurons"), [widened[best], activations[best]], atol=1e-4)
    (fires,) = matrix(at, "real_fires")
    highest = activations.argmax()
    assert fires[n] == pytest.approx(activations[highest], abs=1e-4)
    value, table = checkpoint.w["h.2.mlp.c_proj.weight"][highest], checkpoint.w["wte.weight"]
    alike = table @ value / np.linalg.norm(table, axis=1)
    nearest = bundled_model().tokenizer.token_bytes(int(alike.argmax())).decode()
    names = f"neuron **{highest}** highest", f"token vectors of “{nearest.replace(' ', '·')}”"
    assert all(text in prose(at) for text in names)
    assert f"has 1,024 neurons; {(widened > 0).sum()} are positive before" in prose(at)
    added = checkpoint.w["h.2.mlp.c_proj.weight"][:, 0] * activations
    strong, bias = added[best].sum(), checkpoint.w["h.2.mlp.c_proj.bias"][0]
    (line,) = (text for text in formulas(at) if r"\text{channel }" in text)
    written = [float(n) for n in re.findall(r"-?\d+\.\d+", line)]
    expected = [strong, added.sum() - strong, bias, results["mlp_output"][2][n, 0]]
    assert_allclose(written, expected, atol=1e-4)


@pytest.mark.parametrize(("text", "query"), [(CRANE, "1"), ("A", "")])
def test_real_steps_match_numpy(text: str, query: str) -> None:
    result = stages(text)
    n = int(query or len(result["embedding"]) - 1)
    chosen = {"text": text, "layer": "2", "head": "3"} | ({"query": query} if query else {})
    names = ("crane", "by-hand", "heads", "mlp", "residual", "next-word")
    at = {name: open_page("textbook", chapter=name, **chosen) for name in names}
    q, k = (result[part][2][3] for part in "qk")
    hardest = result["weights"][2][3][n].argmax()
    rows = np.array([q[n], k[hardest], q[n] * k[hardest]])
    scores = [result[stage][2][3][n] for stage in ("scores", "scaled_scores")]
    stream = [("residual_out", 1), ("attention_output", 2), ("mlp_output", 2), ("residual_out", 2)]
    results: dict[tuple[str, str], Any] = {
        ("crane", "real_qk"): rows[:, :8],
        ("by-hand", "real_scaled"): scores,
        ("heads", "real_outputs"): [
            *result["head_output"][2][:, n, :8],
            result["attention_output"][2][n, :8],
        ],
        ("mlp", "real_mlp"): [result[key][2][n, :8] for key in ("residual_mid", "mlp_output")],
        ("residual", "real_stream"): [result[key][layer][n, :8] for key, layer in stream],
        ("next-word", "real_logits"): [-np.sort(-result["logits"][n])[:5]],
    }
    for (name, key), expected in results.items():
        assert_allclose(matrix(at[name], key)[: len(expected)], expected, atol=1e-4, err_msg=key)
    (line,) = (text for text in formulas(at["by-hand"]) if r"\sqrt{32}" in text)
    raw, divided = (float(n) for n in re.findall(r"-?\d+\.\d+", line))
    assert_allclose([raw, divided], [score[hardest] for score in scores], atol=1e-4)
    assert divided == pytest.approx(raw / np.sqrt(32), abs=1e-4)
    check_neurons(at["mlp"], result, n)


def test_text_on_real_numbers_matches_numpy() -> None:
    result, chosen = stages(CRANE), {"layer": "1", "head": "4", "query": "2"}
    hardest = result["weights"][1][4][2].argmax()
    ids = bundled_model().tokenizer.encode(CRANE)
    rows, positions = read(BUNDLED).w["wte.weight"][ids], read(BUNDLED).w["wpe.weight"][: len(ids)]
    token, position = (x / np.linalg.norm(x, axis=1)[:, None] for x in (rows, positions))
    for name, expected in {
        "order": f"the cosine is {abs(token @ position.T).mean():.2f} on average",
        "crane": f"is the score, **{result['scores'][1][4][2, hardest]:.3f}**",
        "heads": f"those of head 4 begin with {result['head_output'][1][4, 2, 0]:.3f}.",
        "tokens": f"has the id **{ids[2]:,}**. So its vector is row {ids[2]:,} of the table, which "
        f"begins with {rows[2, 0]:.3f}.",
    }.items():
        at = open_page("textbook", chapter=name, **chosen)
        assert expected in prose(at).replace("−", "-"), name
    assert "“A” sees only itself." in prose(open_page("textbook", chapter="crane", query="0"))


def test_link_opens_the_tensors_of_the_step() -> None:
    for name, keys in {
        "tokens": {"token_embedding"},
        "order": {"token_embedding", "position_embedding", "embedding"},
        "mlp": {"mlp_in", "mlp_act", "mlp_projected", "mlp_output"},
        "residual": {"residual_mid", "residual_out"},
    }.items():
        requested = link(open_page("textbook", chapter=name, layer="2"), "shapes", "filter")
        (table,) = (
            frame.value for frame in open_page("shapes", filter=requested["filter"]).dataframe
        )
        assert keys <= set(table["key"]), name
        assert set(table["layer"].dropna()) <= {2}, name


def test_next_word_chapter_agrees_with_predict() -> None:
    at = open_page("textbook", chapter="next-word")
    result = stages(CRANE)["next_token_probabilities"]
    assert f"**{100 * result.max():.1f} %**" in prose(at)
    requested = link(at, "predict", "predict")
    predict = open_page("predict", **{name: requested[name] for name in ("predict", "query")})
    (table,) = (
        table for table in predict.session_state["_shown"].tables.values() if "model (%)" in table
    )
    assert table["model (%)"].iloc[0] == pytest.approx(100 * result.max(), rel=1e-3)


def test_switches_appear_in_the_chapters_that_explain_them() -> None:
    def switches(**address: str) -> set[str]:
        at = open_page("textbook", **address)
        return {str(toggle.key) for toggle in at.toggle} & {"causal", "bos"}

    assert switches(chapter="by-hand") == set()
    assert switches(chapter="mask") == {"causal"}
    assert switches(chapter="sinks") == {"causal", "bos"}
    assert switches(chapter="tokens", causal="false", bos="true") == {"causal", "bos"}


def strongest_induction(ids: list[int], run: dict[str, Any]) -> tuple[int, int, int, int]:
    """The head above layer 0 with the best induction score, and its largest such weight."""
    scores = [expected_scores(weights, ids)["induction"] for weights in run["weights"][1:]]
    above, head = map(int, np.unravel_index(np.argmax(scores), np.shape(scores)))
    on = run["weights"][above + 1][head]
    after = [(q, k + 1) for q in range(len(ids)) for k in range(q) if ids[k] == ids[q]]
    return above + 1, head, *max(after, key=lambda cell: on[cell])


JOHN = "When Mary and John went to the garden, John gave the flower to Mary"


@pytest.mark.parametrize("text", [CRANE, JOHN])
def test_reason_has_the_numbers_of_the_named_cell(text: str) -> None:
    at = open_page("textbook", chapter="why", text=text, see="weights", what_if="depends")
    sentence = f"{text} {text}" if text == CRANE else text  # no token repeats there
    ids = list(bundled_model().tokenizer.encode(sentence))
    layer, head, query, key = strongest_induction(ids, run := stages(sentence))
    weight, scores = run["weights"][layer][head, query, key], run["scores"][layer][head, query]
    words = prose(at)
    assert ("no token comes twice" in words) == (text == CRANE)
    assert f"**head {layer}.{head}**" in words
    assert re.search(rf"goes from {query} \S+ to {key} \S+: \*\*{weight:.2f}\*\*", words)
    assert f"The run's own q·k is {scores[key]:.4f}"[:-2] in words
    beyond = scores[key] - scores[: query + 1].mean()
    assert formulas(at)[-1].endswith(rf"\approx {beyond:.2f}")
    parts = heatmaps(at, "why_parts")["parts"]
    assert parts[-1, -1] == pytest.approx(beyond, rel=1e-3)
    assert f"{len(parts) - 1} \\cdot {len(parts) - 1}" in " ".join(formulas(at))
    step = {"layer": str(layer), "head": str(head), "query": str(query), "key": str(key)}
    cell, opened_cell = (requested for requested in links(at, "head") if "layer" in requested)
    assert cell.items() >= ({"text": sentence, "see": "run"} | step).items()
    assert opened_cell.items() >= step.items()
    other, other_head, other_query, other_key = map(int, re.split("[.:]", opened_cell["why"]))
    result = re.search(r"it looked hardest at (\d+) \S+, \*\*.*?\*\* \(weight ([\d.]+)\)", words)
    assert result
    row = run["weights"][other][other_head, other_query]
    assert (int(result[1]), result[2]) == (other_key, f"{row[other_key]:.2f}")
    assert row[other_key] == row.max()
    (off,) = (requested for requested in links(at, "what_if") if "layer" in requested)
    assert (off["what_if"], off["edits"]) == ("edits", f"off:{other}.{other_head}")
    without = gpt2viz.trace(bundled_model(), ids, edits=gpt2viz.parse_edits(off["edits"]))
    weight_without = without.stage("weights", layer, head)[query, key]
    assert f"went from {weight:.2f} to **{weight_without:.2f}**" in words
    assert all(text in words for text in ("an **induction** circuit", "Blue raises the score"))


def test_no_circuit_is_reported_without_one(tmp_path: Path, list_models: Any) -> None:
    list_models(write_checkpoint(tmp_path / "other"))
    at = open_page("textbook", chapter="why", text="ab ab", model="other")
    free = prose(open_page("textbook", chapter="why", text="aab", model="other", causal="false"))
    assert "at 1 a, it looked hardest at 2 b, **one token ahead**" in free
    lost = open_page("textbook", chapter="next-word", text="ab ab", model="other")
    assert links(lost, "textbook")[-1]["model"] == "stories"  # the sentence is for that model
    words = prose(at)
    assert "No single reason stands out" in words
    assert "induction" not in words
    assert "The largest such weight is 0." in words
    assert at.session_state["_progress"]["why"] == []


def test_reason_why_nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    words = prose(open_page("textbook", chapter="why", text="A"))
    assert "not even where your sentence is said twice." in words
    assert "too long" not in words
    monkeypatch.setattr(why, "repeat_sentence", lambda view: None)
    assert "said twice would be too long" in prose(open_page("textbook", chapter="why", text="A"))
