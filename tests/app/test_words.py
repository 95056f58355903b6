"""The text and code around the pictures are right for this page and run."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz import parse_edits
from gpt2viz.app.course import real_step
from gpt2viz.app.frame import sentence
from gpt2viz.labels import label
from gpt2viz.pictures import tables
from gpt2viz.pictures.compare import side_panel
from gpt2viz.pictures.from_trace import one_head, stage_panel, weights_measure, who_sees_whom
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.run import stages
from gpt2viz.run.provenance import MARK
from tests.app.cases import each
from tests.app.pages import canvas, chips, header_of, notices, open_page, plain, press
from tests.bundled import bundled_model, ids_of
from tests.pictures.samples import heatmaps

#: The effect of choosing a token, by page and parameters; "" for none.
CHOOSING = [
    *(
        (page, {}, sentence.LIGHT_UP)
        for page in ("attention", "head", "side_by_side", "side_by_side?differs=mask", "what_if")
    ),
    ("side_by_side?differs=text", {}, sentence.LIGHT_UP),
    *((page, {}, "") for page in ("shapes", "predict?predict=generate", "training")),
    ("predict", {}, "Choose a token to see what comes after it."),
    ("find", {}, ""),
    ("find", {"on": "texts"}, sentence.LIGHT_UP),
    ("find", {"on": "sentence"}, sentence.LIGHT_UP),
    ("find", {"find": "look", "keys": "0"}, "Choose the token that attends (query)."),
    ("find", {"find": "pattern"}, sentence.LIGHT_UP),
    ("find", {"find": "head"}, sentence.LIGHT_UP),
    ("find", {"find": "all", "on": "sentence"}, ""),
    *(("models", {"part": part}, "") for part in ("cost", "modules")),
    ("textbook", {"chapter": "whole"}, ""),
    *(("textbook", {"chapter": name}, real_step.CHOOSING) for name in ("tokens", "next-word")),
    ("textbook", {"chapter": "heads"}, sentence.LIGHT_UP),
]


@each(("page", "parameters", "does"), CHOOSING)
def test_chips_explain_the_effect_of_choosing(
    page: str, parameters: dict[str, str], does: str
) -> None:
    text = "The cat sat on the mat and the cat sat"
    at = open_page(page, text=text, query="1", **parameters)
    result = chips(at)
    assert result["name"] == "10 tokens"
    (name,) = (b.proto for b in at.markdown if result["name"] in plain(b.value) and b.proto.help)
    assert plain(name.help) == f"{sentence.A_CHIP} {does}".strip()
    assert label(b"\xf0") in name.help
    assert (result["disabled"], result["chosen"]) == ((False, 1) if does else (True, None))
    if does in ("", sentence.LIGHT_UP):  # other effects have tests of their numbers
        other = open_page(page, text=text, query="3", **parameters)
        assert (_frames(at) != _frames(other)) == bool(does)


def _frames(at: AppTest) -> list[str]:
    """The start of each canvas's message, which has its frames."""
    canvases = [c.proto.bytes for c in at.get("bidi_component") if c.proto.bytes]
    return [str(message[:4000]) for message in canvases]


def test_additional_heads_exclude_the_chosen_one() -> None:
    at = open_page("attention", picture="lines", head="3", more="3,4")
    assert header_of(canvas(at, "one_head"))["head"]["more"] == [3, 4]
    (lines,) = (name for name in at.session_state["_shown"].pictures if "as lines" in name)
    assert "head 3, 4, as lines" in lines
    assert not notices(at)
    at = open_page("attention", picture="lines", head="4", more="3,4")
    (lines,) = (name for name in at.session_state["_shown"].pictures if "as lines" in name)
    assert "head 4, 3, as lines" in lines


@each(("text", "there"), [("a\nb", True), ("a\rb", True), ("a b", False)])
def test_text_box_shows_the_text_of_the_run(text: str, there: bool) -> None:
    at = open_page("side_by_side?differs=text", text=text, text2=text)
    for key in ("text", "text2"):
        boxes = [box for box in [*at.text_area, *at.text_input] if box.key == key]
        assert [(box.value, box.type) for box in boxes] == [
            (text, "text_area" if there else "text_input")
        ]
    assert at.session_state["_shown"].runs["The run"].token_ids == tuple(ids_of(text))


@each(("page", "name"), [("shapes", "filter"), ("models", "word"), ("predict", "explain")])
def test_one_line_box_rejects_line_breaks(page: str, name: str) -> None:
    at = open_page(
        page, **{name: "a\nb", "part": "tokenizer"} if page == "models" else {name: "a\nb"}
    )
    assert f"{name}: " in notices(at)
    assert "one line" in notices(at)


@each(
    ("text", "expected", "label"),
    [
        ("the cat sat on ", "ends with a space", "Remove the space"),
        ("the cat  ", "ends with 2 spaces", "Remove them"),
    ],
)
def test_trailing_spaces_are_reported_and_removed(text: str, expected: str, label: str) -> None:
    """For every page, see ``test_behaviour``."""
    at = open_page("predict", text=text)
    assert expected in plain(" ".join(c.value for c in at.caption))
    press(at, label)
    assert at.text_input(key="text").value == text.rstrip()
    assert at.query_params["text"] == text.rstrip()
    assert "ends with" not in plain(" ".join(c.value for c in at.caption))
    at = open_page("side_by_side?differs=text", text="the cat", text2=text)
    assert f"Second sentence: This text {expected}" in plain(" ".join(c.value for c in at.caption))
    press(at, label)
    assert at.text_input(key="text2").value == text.rstrip()


@each("keys", [{}, {"keys": "0"}])
def test_unknown_rank_is_noted(keys: dict[str, str]) -> None:
    at = open_page("find", find="look", rank="junk", **keys)
    assert notices(at).startswith("rank: junk")
    assert "rank" not in at.query_params


RUNS = [
    ((True, ""), "masked (a later key)", "this key comes later", "−∞ for later keys"),
    (
        (True, "forbid:3:1"),
        "masked (a later key, or hidden by an edit)",
        "this key comes later or an edit hides it",
        "−∞ for later keys and keys that an edit hides",
    ),
    (
        (False, "forbid:3:1"),
        "masked (hidden by an edit)",
        "an edit hides it",
        "−∞ for keys that an edit hides",
    ),
    ((False, ""), None, "", "unchanged: mask off"),
]


@each(("run", "name", "why", "formula"), RUNS)
def test_reason_of_a_masked_cell(
    run: tuple[bool, str], name: str | None, why: str, formula: str
) -> None:
    causal, edits = run
    model = bundled_model()
    trace = gpt2viz.trace(model, "A crane ate fish", causal=causal, edits=parse_edits(edits))
    labels = [str(n) for n in range(4)]
    panels = [
        stage_panel(trace, labels, "weights", 1, 2, ""),
        stage_panel(trace, labels, "masked_scores", 1, 2, ""),
        one_head(weights_measure(trace, labels, 1), 2, "", ""),
        who_sees_whom(trace, labels, ""),
        side_panel(trace, labels, 1, None, ""),
    ]
    for panel in panels:
        drawn = heatmaps([panel], LIGHT)
        legend = [t.name for t in drawn.data if t.type == "scatter"]
        assert legend == ([] if name is None else [name])
        painted = [t.hovertemplate for t in drawn.data if t.type == "heatmap" and not t.coloraxis]
        assert len(painted) == (name is not None)
        assert all(f"{why}<extra>" in text for text in painted)
    table = tables.shape_table(trace)
    assert set(table[table["key"] == "masked_scores"]["operation"]) == {formula}
    assert stages.masking(causal, bool(edits)) == formula


@each(
    ("text", "causal", "expected", "counted"),
    [
        ("A crane ate fish", "true", "−∞ for later keys", "; 6 cells masked"),
        ("A crane", "true", "−∞ for later keys", "; 1 cell masked"),
        ("A crane", "false", "mask off", None),
    ],
)
def test_pages_describe_the_runs_mask(
    text: str, causal: str, expected: str, counted: str | None
) -> None:
    shown = open_page("shapes", text=text, causal=causal).session_state["_shown"].tables
    operations = shown["Every tensor of the run"].set_index("key")["operation"]
    assert all(expected in text for text in operations["masked_scores"])
    at = open_page("head", text=text, causal=causal)
    assert expected in plain(" ".join(block.value for block in at.markdown))
    (how,) = (plain(c.help) for c in at.caption if "mixes the rows" in c.help)
    assert ("√hs, masked and" in how) == (causal == "true")
    tips = [m.help for m in at.markdown if " masked" in m.help]
    assert len(tips) == (2 if counted else 0), "scores and weights"
    assert all(counted in tip for tip in tips if counted)


def test_difference_of_a_logit_with_itself_is_not_offered() -> None:
    at = open_page("predict")
    explain, minus = (at.selectbox(key=key) for key in ("explain", "minus"))
    assert explain.value in explain.options
    assert explain.value not in minus.options
    assert {*minus.options[1:], explain.value} == {*explain.options}


@each(
    ("page", "key", "layer"),
    [
        ("attention", "weights", 1),
        ("side_by_side", "weights", 0),
        ("side_by_side?differs=mask", "masked_scores", 0),
        ("predict", "last_logits", None),
        ("predict?predict=generate", "weights", 1),
        ("side_by_side?differs=text", "weights", 1),
    ],
)
def test_line_that_made_the_tensor_is_marked(page: str, key: str, layer: int | None) -> None:
    at = open_page(page, layer="1", head="2")
    record = gpt2viz.trace(bundled_model(), "A crane ate fish").record(key, layer)
    assert record is not None
    marked = [
        block.value.partition(MARK)[2].splitlines()[1] for block in at.code if MARK in block.value
    ]
    assert any(record.code in line for line in marked)
