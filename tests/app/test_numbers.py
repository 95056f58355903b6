"""The numbers in the charts match the NumPy GPT-2."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpt2viz
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.pictures.palette import LIGHT
from tests.app.cases import each
from tests.app.pages import (
    SHADE,
    canvas,
    data_of,
    header_of,
    heatmaps,
    masks,
    matrices,
    open_page,
    panels,
    plain,
    titles,
)
from tests.bundled import HEADS, HS, N_HEAD, C, bundled_model, stages
from tests.numpy_gpt2 import Tolerance, read
from tests.pictures.test_svg import colors, shade

TEXT = "The animal didn't cross the street because it was too tired"
TOLERANCE: Tolerance = {"rtol": 2e-4, "atol": 2e-4}  # the bundled model's scores reach hundreds


@pytest.fixture(scope="module", params=[True, False], ids=["masked", "unmasked"])
def expected(request: pytest.FixtureRequest) -> Any:
    return request.param, stages(TEXT, request.param)


def address(causal: bool, **more: str) -> dict[str, str]:
    return {"text": TEXT, "causal": str(causal).lower(), **more}


def test_map_of_all_heads_has_their_weights(expected: Any) -> None:
    causal, oracle = expected
    at = open_page("attention", **address(causal, layer="2"))
    (every,) = (p for p in at.session_state["_shown"].pictures.values() if "tiles" in vars(p))
    assert_allclose(every.tiles, oracle["weights"], **TOLERANCE)  # the numbers behind the picture
    shown = heatmaps(at, "all_heads")
    assert len(shown) == HEADS
    for layer, heads in enumerate(oracle["weights"]):
        assert_allclose([shown[f"{layer}.{n}"] for n in range(N_HEAD)], heads, atol=SHADE)
    assert {(m.panel["low"], m.panel["high"]) for m in matrices(at, "all_heads")} == {(0, 1)}
    later = np.triu(np.ones((12, 12), bool), 1)
    assert len(masks(at, "all_heads")) == (HEADS if causal else 0)
    for mask in masks(at, "all_heads"):
        assert_array_equal(mask, later)


def test_masked_cells_are_missing_in_tables(expected: Any) -> None:
    """Both in Numbers, which Save writes to files, and in the table below the pictures."""
    causal, oracle = expected
    at = open_page("attention", **address(causal, layer="2", head="3"))
    shown = at.session_state["_shown"]
    later = np.triu(np.ones((12, 12), bool), 1) & causal
    (table,) = (
        frame
        for name, frame in shown.tables.items()
        if "head 3" in name and "query" in (frame.index.name or "")
    )
    assert_array_equal(table.isna(), later)
    weights = np.where(later, 0, oracle["weights"][2][3])
    assert_allclose(table.fillna(0).to_numpy(np.float64), weights, **TOLERANCE)
    for name, picture in shown.pictures.items():
        table, n_heads = picture.table(), picture.table()["picture"].nunique()
        hidden = table.get("hidden", np.full(len(table), ""))
        assert_array_equal(np.reshape(hidden != "", (n_heads, 12, 12)), [later] * n_heads, name)


def test_value_weighted_and_without_first_token_measures(expected: Any) -> None:
    causal, oracle = expected
    projection = read(BUNDLED).w["h.2.attn.c_proj.weight"].reshape(N_HEAD, HS, C)
    value_norms = np.linalg.norm(oracle["v"][2] @ projection, axis=-1)
    lengths = oracle["weights"][2] * value_norms[:, None, :]
    rest = oracle["weights"][2][:, 1:, 1:]
    rest = rest / rest.sum(axis=-1, keepdims=True)
    for head in (0, N_HEAD - 1):
        chosen = address(causal, layer="2", head=str(head))
        (drawn,) = matrices(open_page("attention", **chosen, show="norms"), "one_head")
        assert_allclose(drawn.values, lengths[head], rtol=2e-3, atol=2e-3)
        assert drawn.panel["low"] == 0
        assert drawn.panel["high"] == pytest.approx(lengths[head].max(), rel=1e-3)
        (drawn,) = matrices(open_page("attention", **chosen, show="rest"), "one_head")
        assert_allclose(drawn.values[1:, 1:], rest[head], rtol=5e-3, atol=2e-3)
        assert drawn.masked[:, 0].all()


def test_every_stage_of_a_head_matches_numpy(expected: Any) -> None:
    causal, oracle = expected
    at = open_page("head", **address(causal, layer="1", head="4"))
    tips = [plain(m.help) for m in at.markdown if m.help.startswith("(B, nh, T, ")]
    assert len(tips) == len(gpt2viz.HEAD_STAGES)
    records = gpt2viz.trace(bundled_model(), TEXT, causal=causal)
    for key, text in zip(gpt2viz.HEAD_STAGES, tips, strict=True):
        record = records.record(key, 1)
        assert record is not None
        assert text.endswith(f"`{record.code}`")
        shown = heatmaps(at, f"stage_{key}")[key]
        assert_allclose(shown, oracle[key][1][4], **TOLERANCE, err_msg=key)
        numbers = oracle[key][1][4]
        finite = numbers[np.isfinite(numbers)]
        written = re.search(r"\n(\S+) to ([^\s;]+)", text)
        assert written
        ends = [number(n) for n in written.groups()]
        assert_allclose(ends, [finite.min(), finite.max()], rtol=6e-3, atol=2e-4)
        assert f" {len(numbers)} × {len(numbers[0])}  " in text


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("∞", "inf"))


def test_sum_of_a_cell_matches_numpy(expected: Any) -> None:
    causal, oracle = expected
    at = open_page("head", **address(causal, layer="1", head="4", query="7", key="9"))
    tables = at.session_state["_shown"].tables
    dot, output = (tables[f"{name}, dimension by dimension"] for name in ("q·k", "The output"))
    softmax = tables["Softmax, key by key"]
    q, k, v = (oracle[name][1][4] for name in "qkv")
    weights = oracle["weights"][1][4][7]
    assert_allclose(dot["q × k"], q[7] * k[9], **TOLERANCE)
    assert_allclose(softmax["weight"], weights, **TOLERANCE)
    assert_allclose(output["all keys"], weights @ v, **TOLERANCE)
    assert_allclose(output["weight × v"], weights[9] * v[9], **TOLERANCE)

    parts = data_of(at, "written_sum")["parts"]
    results = [part for part in parts if part["kind"] == "result"]
    score = q[7] @ k[9]
    for side in ("value", "model"):
        matches = [number(row[side]) for row in results]
        assert_allclose(matches, [score, score / HS**0.5, weights[9]], **TOLERANCE)
    text = " ".join(part["text"] for part in parts if part["kind"] == "arrow")
    assert ("masked, as this key comes" in text) == causal
    assert ("the mask is off" in text) == (not causal)


def test_strips_and_row_table_of_a_cell_match_numpy(expected: Any) -> None:
    causal, oracle = expected
    query, key = 11, 2
    chosen = address(causal, layer="1", head="4", query=str(query), key=str(key))
    parts = data_of(open_page("head", **chosen), "written_sum")["parts"]
    q, k, v = (oracle[name][1][4] for name in "qkv")
    weights = oracle["weights"][1][4][query]
    strips = {part["name"]: part for part in parts if part["kind"] == "strip"}
    vectors = {"q": q[query], "k": k[key], "q × k": q[query] * k[key]}
    vectors |= {"v": v[key], "weight × v": weights[key] * v[key], "output": weights @ v}
    assert list(strips) == list(vectors)
    for name, vector in vectors.items():
        shown = [number(says.rpartition(" ")[2]) for _, says in strips[name]["cells"]]
        assert_allclose(shown, vector, **TOLERANCE)
        for (color, _), value in zip(strips[name]["cells"], vector, strict=True):
            red, blue = int(color[1:3], 16), int(color[5:], 16)
            assert abs(value) < 0.1 or (blue > red) == (value > 0), name
    same = max(np.abs(v[key]).max(), np.abs(weights @ v).max())
    expected = colors(0.5 + weights[key] * v[key] / (2 * same), LIGHT.signed)
    assert_allclose([shade(color) for color, _ in strips["weight × v"]["cells"]], expected, atol=1)

    (table,) = (part for part in parts if part["kind"] == "table")
    *listed, others = table["rows"]
    positions = [int(cells[0].split()[0]) for cells, _ in listed]
    assert set(positions) == {key, *np.argsort(-weights)[:5]}
    assert positions == sorted(positions)
    assert positions[table["chosen"]] == key
    assert_allclose([share for _, share in listed], weights[positions], **TOLERANCE)
    assert_allclose([number(cells[3]) for cells, _ in listed], weights[positions], **TOLERANCE)
    row = oracle["masked_scores"][1][4][query]
    assert_allclose([number(cells[1]) for cells, _ in listed], row[positions], **TOLERANCE)
    rest = np.delete(np.arange(12), positions)
    assert others[0][0] == f"{len(rest)} others"
    assert_allclose(number(others[0][3]), weights[rest].sum(), **TOLERANCE)


def test_default_key_has_the_rows_largest_weight(expected: Any) -> None:
    causal, oracle = expected
    for query, layer, head in (("", "1", "4"), ("2", "3", "2")):
        more = {"layer": layer, "head": head} | ({"query": query} if query else {})
        at = open_page("head", **address(causal, **more))
        row = oracle["weights"][int(layer)][int(head)][int(query or 11)]
        assert at.selectbox(key="key").value == row.argmax()
        assert "key" not in at.query_params
        assert any(c.value.startswith("This is the row's largest weight") for c in at.caption)
        other = str((row.argmax() + 1) % 12)
        at = open_page("head", **address(causal, **more, key=other))
        assert not any("largest weight" in c.value for c in at.caption)


@each("shown", [{"compare": "mean"}, {"compare": "rollout"}, {"head": "2"}])
def test_layers_and_their_differences_match_numpy(expected: Any, shown: dict[str, str]) -> None:
    causal, oracle = expected
    at = open_page("side_by_side", **address(causal, layers="0,3,1", **shown))
    mixed, layers = np.eye(12), []
    for weights in oracle["weights"]:
        mean = weights.mean(axis=0)
        mixed = (mean + np.eye(12)) / 2 @ mixed
        layers.append({"mean": mean, "rollout": mixed}.get(shown.get("compare", ""), weights[2]))
    assert_allclose(panels(at, "layers_chart"), [layers[0], layers[3], layers[1]], **TOLERANCE)
    drawn = panels(at, "differences")
    assert_allclose(drawn, [layers[3] - layers[0], layers[1] - layers[0]], **TOLERANCE)
    assert titles(at, "differences") == ["Layer 3 − layer 0", "Layer 1 − layer 0"]
    panel = matrices(at, "differences")[0].panel
    assert panel["high"] == -panel["low"] == pytest.approx(np.abs(drawn).max())
    header = header_of(canvas(at, "differences"))
    assert ("weight" in header["bar"]) == (shown != {"compare": "rollout"})
    assert ": layer 3, layer 1 − layer 0." in header["alt"]


def test_shape_table_matches_the_run(model: gpt2viz.Model) -> None:
    trace = gpt2viz.trace(model, TEXT)
    at = open_page("shapes", text=TEXT)
    table = at.dataframe[0].value
    (text,) = [block.value for block in at.markdown if "This run made" in block.value]
    shared = {"q", "k", "v", "attention_output", "mlp_output"}
    size = sum(record.nbytes for record in trace.tensors if record.key not in shared) / 1e6
    assert f"**{len(trace.tensors)} tensors**, {size:.3g} MB" in plain(text)
    assert f"**{sum(p.numel() for p in model.network.parameters()):,} " in text
    assert list(table["tensor"]) == [record.name for record in trace.tensors]
    assert set(table["key"][table["shared"]]) == shared
    assert '"width": 208' in at.dataframe[0].proto.columns, "the longest name isn't cut"
    assert list(table["bytes"]) == [record.nbytes for record in trace.tensors]
    assert table["parameters"].sum() == sum(p.numel() for p in model.network.parameters())
    only = open_page("shapes", text=TEXT, filter="h.2.attn.attend").dataframe[0].value
    assert set(only["layer"]) == {2}
    assert list(only["key"]) == list(gpt2viz.HEAD_STAGES[3:])
    assert not open_page("shapes", text=TEXT, filter="no such row").dataframe
