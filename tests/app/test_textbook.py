"""The Textbook page: its chapters, what follows from an edited number, and its questions."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app.course import progress, sheets
from gpt2viz.app.course.answers import right
from gpt2viz.app.course.contents import APPENDIX, CHAPTERS
from gpt2viz.model.checkpoint import BUNDLED
from gpt2viz.run import tracer
from gpt2viz.run.provenance import MARK
from gpt2viz.textbook import embeddings, steps, tiny_crane
from gpt2viz.textbook.examples import EXAMPLES, claims
from tests.app.pages import ROOT, figure, heatmaps, open_chapter, open_page, pictures, plain
from tests.numpy_gpt2 import reference, softmax


def shown(at: AppTest) -> str:
    return "\n".join(element.value for element in [*at.markdown, *at.subheader, *at.caption])


#: The chapters that ask questions: all but the appendix.
LESSONS = [name for name in CHAPTERS if name != APPENDIX]
#: At 180 words a minute, slow enough for formulas.
WORDS_IN_FIVE_MINUTES = 900


def prose(at: AppTest) -> int:
    """Words of running text: not tables of claims, code, hints or the frame's own."""
    (column,) = [block for block in at.columns if block.header]
    hidden = {id(e) for box in column.expander for e in [*box.markdown, *box.caption]}
    texts = [e.value for e in [*column.markdown, *column.caption] if id(e) not in hidden]
    frame = r"[\d,]+ tokens?"  # what the strip of tokens is called
    return sum(
        len(text.split()) for text in texts if "|:-|" not in text and not re.fullmatch(frame, text)
    )


def questions(block: Any) -> Iterator[str]:
    """The ids of the questions that stand in a part of the page."""
    for part in getattr(block, "children", {}).values():
        name = str(getattr(part.proto, "id", ""))
        yield from [name.partition("question_")[2]] if "-question_" in name else questions(part)


#: What a chapter may be made of: parts to look at, Streamlit's own, which all answer to keys, and
#: the app's. An exercise of each of these is done by keyboard in ``tests/browser``.
_SEEN = {"caption", "code", "header", "html", "latex", "markdown", "metric", "plotly_chart"}
_SEEN |= {"subheader", "success", "dataframe", "empty", "column", "flex_container"}
_OWN = {"button", "button_group", "download_button", "expander", "file_uploader", "page_link"}
_OWN |= {"popover", "radio", "select_slider", "selectbox", "text_input", "toggle"}
_WITHOUT_HANDS = {
    f"gpt2viz_{name}" for name in ("bundle", "keyboard", "landing", "progress", "theme_watch")
}
_OF_THE_APP = {
    f"gpt2viz_{name}"
    for name in ("arrows", "diagram", "guess_bars", "listings", "number_grid", "player", "tiles")
}
_OF_THE_APP |= {f"gpt2viz_{name}" for name in ("matrix_or_lines", "picture_switch", "token_chips")}
BY_KEYBOARD = _SEEN | _OWN | _WITHOUT_HANDS | _OF_THE_APP


def parts(block: Any) -> Iterator[str]:
    """The kinds of all that stands in a part of the page, components by name."""
    for part in getattr(block, "children", {}).values():
        yield part.proto.component_name if part.type == "bidi_component" else part.type
        yield from parts(part)


def titles(at: AppTest) -> list[str]:
    return [element.value for element in at.subheader]


def answered(at: AppTest) -> list[str]:
    found = at.session_state["_progress"]
    return [id for ids in found.values() for id in ids]


def test_every_example_has_its_chapter() -> None:
    ids = [id for name in LESSONS for id in CHAPTERS[name].examples]
    assert sorted(ids, key=lambda id: int(id[1:])) == [f"E{n}" for n in range(1, 27)]


@pytest.mark.parametrize("chapter", LESSONS)
def test_every_chapter_opens_with_its_examples_and_unanswered_questions(chapter: str) -> None:
    at = open_page("textbook", chapter=chapter)
    assert at.header[0].value == CHAPTERS[chapter].title
    titles = " ".join(element.value for element in at.subheader)
    for id in CHAPTERS[chapter].examples:
        assert f"[{id}]" in titles
    lines = [b.label for b in at.button if b.label.startswith("Printed and computed")]
    ids = ", ".join(CHAPTERS[chapter].examples)
    assert lines == ([f"Printed and computed: {ids}"] if ids else [])
    assert "|printed|computed|" not in shown(at)
    asked = [element for element in at.markdown if element.value.startswith("**?**")]
    assert len(asked) == len(CHAPTERS[chapter].questions)
    assert tuple(questions(at.main)) == CHAPTERS[chapter].questions
    assert (1 if CHAPTERS[chapter].part else 2) <= len(asked) <= 4
    assert at.latex  # formulas with this page's numbers
    assert prose(at) <= WORDS_IN_FIVE_MINUTES
    assert answered(at) == []
    assert not at.warning
    assert set(parts(at.main)) <= BY_KEYBOARD


def test_the_lessons_sheets_are_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, bytes] = {}

    def button(_label: str, data: str | bytes, **options: Any) -> bool:
        given[options["file_name"]] = data if isinstance(data, bytes) else data.encode()
        return False

    monkeypatch.setattr("streamlit.download_button", button)
    open_page("textbook", chapter="mask")
    for file in ("sheet.html", "sheet-answers.html"):
        assert given[f"gpt2viz-{file}"] == (ROOT / "docs" / "lessons" / file).read_bytes()
    assert b"<td>(B, nh, T, T)</td><td>(1, 12, 4, 4)</td>" in given["gpt2viz-shapes.html"]
    given.clear()
    monkeypatch.setattr(sheets, "FOLDER", ROOT / "nowhere")
    open_page("textbook", chapter="mask")
    assert list(given) == ["gpt2viz-progress.json"]


def test_an_example_opens_its_chapter() -> None:
    at = open_page("textbook", example="E19")
    assert at.header[0].value == CHAPTERS["by-hand"].title
    at.radio(key="chapter").set_value("crane").run()
    assert "example" not in at.query_params  # else the way back would end there again


def test_the_appendix_has_every_example_with_its_anchor_and_its_code() -> None:
    at = open_page("textbook", chapter=APPENDIX)
    assert [title.proto.anchor for title in at.subheader] == list(EXAMPLES)
    tables = [block.value for block in at.markdown if "|:-|" in block.value]
    assert len(tables) == len(EXAMPLES)
    for id, table in zip(EXAMPLES, tables, strict=True):
        verdicts = re.findall(r"-badge\[(\w+)\]", table)
        assert verdicts == [claim.verdict for claim in claims(id) if claim.verdict], id
    told = {"agrees": 0, "differs": 0} | Counter(re.findall(r"-badge\[(\w+)\]", str(tables)))
    said = plain(shown(at))
    assert f"Of {sum(told.values())} printed results **{told['agrees']} agree** and" in said
    assert f"**{told['differs']} differ**" in said
    assert "1 result printed: 1 agrees, 0 differ." in said  # E11
    assert "4 results printed: 3 agree, 1 differs." in said  # E19
    assert "Check yourself" not in titles(at)
    assert not at.session_state["_progress"].get(APPENDIX)


def test_a_line_of_a_chapter_leads_to_what_the_texts_print() -> None:
    at = open_page("textbook", chapter="by-hand")
    (line,) = (button for button in at.button if button.label.startswith("Printed and computed"))
    line.click().run()
    expected = [f"{one.title} :gray-badge[{one.id}]" for one in EXAMPLES.values()]
    assert titles(at) == expected
    assert (at.query_params["chapter"], at.query_params["example"]) == (APPENDIX, "E19")
    at.radio(key="chapter").set_value("build").run()
    assert "example" not in at.query_params


def test_edited_keys_and_values_are_followed() -> None:
    keys = [[0.7, 0.7], [3.0, -1.0], [0.9, 0.1]]
    values = [[0.5, 0.5], [0.0, 0.0], [0.8, -0.2]]
    at = open_page(
        "textbook",
        chapter="crane",
        crane_q="2,0.5",
        crane_k_bird=",".join(str(x) for row in keys for x in row),
        crane_v_bird=",".join(str(x) for row in values for x in row),
    )
    weights = softmax(np.array(keys) @ [2, 0.5])
    drawn = heatmaps(figure(at, "crane_weights"))["weights of crane"]
    assert_allclose(drawn[0], weights, atol=1e-6)
    mixed = heatmaps(figure(at, "crane_vectors"))["values, and the crane afterwards"]
    assert_allclose(mixed[-1], weights @ values, atol=1e-6)


def test_edited_sentence_is_followed_through_one_head() -> None:
    x = np.array([[1, 2], [0.5, -1], [0, 0.25], [2, 0]])
    w_q, w_k = np.array([[1, 0.5], [0, 1]]), np.array([[0.3, 1], [-1, 0]])
    spelled = {
        name: ",".join(map(str, table.ravel()))
        for name, table in {"hand_x": x, "hand_wq": w_q, "hand_wk": w_k}.items()
    }
    at = open_page("textbook", chapter="by-hand", **spelled)
    scores = (x @ w_q.T) @ (x @ w_k.T).T
    assert_allclose(heatmaps(figure(at, "hand_scores"))["raw scores QKᵀ"], scores, atol=1e-5)
    weights = softmax(scores / np.sqrt(2))
    assert_allclose(heatmaps(figure(at, "hand_weights"))["weights"], weights, atol=1e-6)


@pytest.mark.parametrize("wrong", ["1", "1,2,3", "1,x", "nan,0", "1e9,0", "inf,1"])
def test_a_table_that_cannot_be_read_is_refused_with_a_note(wrong: str) -> None:
    at = open_chapter("crane", crane_q=wrong)
    assert any("crane" in warning.value for warning in at.warning)
    drawn = heatmaps(figure(at, "crane_weights"))["weights of crane"]
    assert_allclose(drawn[0], softmax(np.array([0.98, 0.7, 0.7])), atol=1e-6)


def test_back_to_the_texts_numbers() -> None:
    at = open_chapter("crane", crane_q="5,0")
    (back,) = [button for button in at.button if button.key == "crane_q_reset"]
    back.click().run()
    assert "crane_q" not in at.query_params
    drawn = heatmaps(figure(at, "crane_weights"))["weights of crane"]
    assert_allclose(drawn[0], softmax(np.array([0.98, 0.7, 0.7])), atol=1e-6)


#: For each picture of matrices what its rows and its columns are, "" where the labels say it.
AXES = {
    "token_vectors": ("token", "dimension"),
    "order": ("token", "dimension"),
    "order_sums": ("token", "dimension"),
    "crane_weights": ("query", "key"),
    "crane_vectors": ("vector", "dimension"),
    "journey_weights": ("query", "key"),
    "hand_qkv": ("token", "dimension"),
    "hand_scores": ("query", "key"),
    "hand_weights": ("query", "key"),
    "hand_output": ("token", "dimension"),
    "sharpness": ("scores", "weight, by size"),
    "values_weights": ("query", "key"),
    "values_itself": ("token", "dimension"),
    "values_chosen": ("token", "dimension"),
    "mask_weights": ("query", "key"),
    "masks": ("query", "key"),
    "variants": ("token", "dimension"),
    "variants_weights": ("query", "key"),
    "variants_dropped": ("query", "key"),
    "apart": ("token", "channel"),
    "real_head": ("query", "key"),
    "walk": ("", "channel"),
    "blocks": ("token", "dimension"),
    "drop": ("", "number"),
    "stream_picture": ("", "channel"),
    "why_look": ("query", "key"),
    "why_parts": ("the query's part", "the key's part"),
    "why_read": ("query", "key"),
    "logits": ("", "next word"),
    "chances": ("", "next word"),
    "learn_gradient": ("lesson", "next letter"),
    "learn_table": ("after", "next letter"),
    "cache_kept": ("token", "dimension"),
    "rnn_states": ("token", "dimension"),
    "rms_rows": ("", "channel"),
    "gate_inside": ("", "channel"),
    "rope_turned": ("", ""),
    "group_weights": ("query", "key"),
    "sink_weights": ("query", "key"),
    "sink_heads": ("layer", "head"),
    "tiny_tokens": ("token", "dimension"),
    "tiny_order": ("token", "dimension"),
    "tiny_qkv": ("token", "dimension"),
    "tiny_scores": ("query", "key"),
    "tiny_weights": ("query", "key"),
    "tiny_heads": ("query", "key"),
    "tiny_merged": ("token", "dimension"),
    "tiny_mlp": ("token", "dimension"),
    "tiny_mlp_adds": ("token", "dimension"),
    "tiny_stream": ("", "channel"),
    "tiny_logits": ("token", "next word"),
    "tiny_chances": ("token", "next word"),
    "real_order": ("", "channel"),
    "real_qk": ("", "channel"),
    "real_scaled": ("", "key"),
    "real_mask": ("query", "key"),
    "real_outputs": ("", "channel"),
    "real_mlp": ("", "channel"),
    "real_neurons": ("", "neuron"),
    "real_stream": ("", "channel"),
    "real_logits": ("", "next word"),
}
#: All that can be a token in the chapters: words of the examples, or a place of one.
WORDS = {*steps.SENTENCE, *steps.JOURNEY, *embeddings.WORDS, *map(str, range(6))}
WORDS |= {*tiny_crane.VOCABULARY}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_rows_and_columns_are_called_what_they_are(chapter: str) -> None:
    at = open_chapter(chapter)
    for key in pictures(at):
        spec = figure(at, key)
        if spec["data"][0]["type"] != "heatmap":
            continue
        down, across = (str(spec["layout"][f"{n}axis"]["title"].get("text", "")) for n in "yx")
        assert (down, across) == AXES[key]
        rows = {re.sub(r"^\d+ ", "", row).strip(" ·") for row in spec["data"][0]["y"]}
        if down in ("token", "query"):
            assert rows <= WORDS, key
        else:
            assert not rows & WORDS or key in ("crane_vectors", "sink_heads"), key


def test_the_output_of_all_four_words_is_shown() -> None:
    at = open_page("textbook", chapter="by-hand", hand_wk="1,0,2,-1", hand_wv="0.5,1,-1,3")
    drawn = heatmaps(figure(at, "hand_output"))["output"]
    torch.manual_seed(42)
    x, w_q = np.array(steps.SENTENCE_X), torch.randn(2, 2).double().numpy()
    w_k, w_v = np.array([[1, 0], [2, -1]]), np.array([[0.5, 1], [-1, 3]])
    weights = softmax((x @ w_q.T) @ (x @ w_k.T).T / np.sqrt(2))
    assert_allclose(drawn, weights @ (x @ w_v.T), atol=1e-6)


def test_the_code_is_that_of_the_module() -> None:
    at = open_page("textbook", chapter="mask")
    source = "\n".join(block.value for block in at.code)
    assert "may_see = torch.ones_like(scores).tril()" in source


#: An expression for each gap of the eighty lines.
BUILT = {
    "build_embedding": "wte[ids] + wpe[:T]",
    "build_scores": "q @ k.mT",
    "build_scale": "scores / sqrt(hs)",
    "build_mask": "scaled.masked_fill(tril(ones(T, T)) == 0, -inf)",
    "build_softmax": "softmax(masked, dim=-1)",
    "build_merge": "heads.transpose(1, 2).reshape(B, T, C)",
    "build_residual": "x + made",
    "build_head": "x @ wte.mT",
}
#: For each question that is answered by doing: an address that answers it.
DONE = {
    "tokens_twice": {"text": "man bites man man"},
    "order_on": {"order_on": "true"},
    "order_equal": {"order_on": "true", "order_places": "0.3,0,0,0.3,0.3,0"},
    "crane_half": {"crane_k_bird": "0.7,0.7,0.9,0.1,2.7,0.3"},
    "crane_machine": {"crane_v_bird": "0.5,0.5,0.9,0.1,0,3"},
    "journey_same": {"journey_x": "3,0,0,-3,0,0,0,3,0,0,-3,0,0,0,3,0,0,-3"},
    "hand_value": {"hand_wk": "0,0,0,0"},
    "scale_one": {"hs": "512"},
    "mask_first": {"mask_scores": f"5,{','.join(['0.5'] * 15)}"},
    "mask_even": {"mask_scores": ",".join(["0.2"] * 16)},
    "way_fails": {"way_C": "1024", "way_nh": "24"},
    "linear_zero": {"lin_b": "-0.5,0.5,1,-1"},
    "curve_lowest": {"curve_x": "2.4,1,0,-0.75,-2"},
    "drop_reading": {"drop_on": "false"},
    "stream_erase": {"stream": "0.2,0.1,0.3,0.4,-0.2,-0.1,-0.3,-0.4"},
    "norm_flat": {"norm": "2,2,2,2,1,1,1,1,0,0,0,0"},
    "depth_ten": {"depth": "48"},
    "whole_half": {"size_n_layer": "1"},
    "next_steel": {"last_x": "-1,3"},
    "next_even": {"heat": "10.0"},
    "learn_rise": {"learn_rate": "100.0"},
    "learn_floor": {"learn_logits": "0,0,9,0,9,0,0,0,0.7,-9,-9,0,0,0,0,0"},
    "why_own": {"text": "The cat sat on the mat and the cat"},
    "rms_same": {"rms_x": "3,-1,-1,-1"},
    "gate_shut": {"gate_w": "2,0,-1,2,0,3"},
    "sink_rest": {"sink_scores": "4,-1,-2,0"},
    "mistake_made": {"try_nh": "7"},
    "build_attention": {name: BUILT[name] for name in list(BUILT)[1:6]},
    "build_all": BUILT,
    "build_broken": BUILT | {"build_mask": "scaled"},
}

#: For each question that is answered in words: the answer as a person may type it.
TYPED = {
    "tokens_shape": "2, 4, 3",
    "order_shape": "(2,5,3)",
    "journey_self": "Journey",
    "mask_row": "6",
    "mask_after": "0.53",
    "way_scores": "(2, 16, 100, 100)",
    "variants_last": "step ",
    "drop_factor": "2.0",
    "norm_scale": "1",
    "whole_untied": "38.6",
    "whole_heads": "20",
    "next_loss": "1.386",
    "learn_count": "ten",
    "why_pairs": "28",
    "why_shared": "0",
    "cache_tenth": "12 + 10 * 4",
    "flash_bytes": "1024 / 64",
    "rnn_between": "99",
    "rope_moved": "37",
    "groups_factor": "four times",
    "mistake_25": "1,000",
}


def chapter_of(id: str) -> str:
    (found,) = (name for name, chapter in CHAPTERS.items() if id in chapter.questions)
    return found


def test_all_questions_are_tried_below() -> None:
    tried = [*DONE, *TYPED, "real_self"]
    assert sorted(tried) == sorted(id for c in CHAPTERS.values() for id in c.questions)


@pytest.mark.parametrize("id", DONE)
def test_a_question_is_answered_by_doing(id: str) -> None:
    at = open_page("textbook", chapter=chapter_of(id), **DONE[id])
    assert id in answered(at)
    assert "done" in shown(at)


#: What must not pass for an answer, and what is said of it.
NOT_DONE = [
    ("order_equal", {"order_places": "0.3,0,0,0.3,0.3,0"}, "Switch them on"),
    ("crane_machine", {"crane": "machine"}, "Choose the bird"),
    (
        "crane_machine",
        {"crane_q": "9,9", "crane_v_bird": "0.5,0.5,0.9,0.1,0,9"},
        "was changed too",
    ),
    ("crane_half", {"crane_heat": "0.05", "crane_k_bird": "0.7,0.7,0.9,0.1,0.8,0.7"}, "to 1."),
    ("crane_machine", {"crane_heat": "0.5", "crane_v_bird": "0.5,0.5,0.9,0.1,0,3"}, "to 1."),
    ("journey_same", {"journey_x": "3,0,0,3,0,0,0,3,0,0,-3,0,0,0,3,0,0,-3"}, "journey"),
    ("hand_value", {"hand_wq": "0,0,0,0"}, "$W_Q$"),
    ("hand_value", {"hand_wv": "0,0,0,0", "hand_x": "0,0,0,0,0,0,0,0"}, "x and $W_V$"),
    ("mask_first", {"mask_on": "false", "mask_scores": f"5,{','.join(['0.5'] * 15)}"}, "mask is"),
    ("mask_even", {"mask_scores": "1,2,3,9,1,2,3,9,1,2,3,9,1,2,3,9"}, "That is the column"),
    ("way_fails", {"way_C": "768", "way_nh": "20"}, "768 channels"),
    ("linear_zero", {"lin_x": "2,1", "lin_b": "-2,2,-2,2"}, "x or W"),
    ("linear_zero", {"lin_w": "0,0,0,0,0,0,0,0", "lin_b": "0,0,0,0"}, "x or W"),
    ("curve_lowest", {"curve_x": "1,1,1,1,-0.5"}, "−0.1543"),
    ("drop_reading", {"drop_p": "0.0"}, "the switch"),
    ("stream_erase", {"stream": "-0.1,0.1,-0.2,0.3,0.1,-0.1,0.2,-0.3"}, "x was changed"),
    ("norm_flat", {"norm": "2,2,2,2,1,1,1,1,0,0,1,0"}, "shift"),
    ("norm_flat", {"norm": "0,0,0,0,1,1,1,1,0,0,0,0"}, "four zeros"),
    ("whole_half", {"size_tied": "false", "size_n_layer": "1"}, "Tie them"),
    ("next_steel", {"last_rows": "0,0,9,9,0,0,0,0"}, "table was changed"),
    ("next_even", {"last_x": "0,0"}, "because of their logits"),
    ("tokens_twice", {"text": "man bites man"}, "two different tokens"),
    ("build_broken", BUILT | {"build_head": "x @ wte.mT / 2"}, "One is wrong, but"),
    ("learn_floor", {"learn_logits": "0,0,9,0,9,0,0,0,9,0,0,0,0,0,0,0"}, "Now it is"),
    ("rms_same", {"rms_x": "0,0,0,0"}, "four zeros"),
    ("rms_same", {"rms_x": "0.0000001,0,0,0"}, "ε decides"),
    ("gate_shut", {"gate_up": "1,1,0,0,2,-1"}, "x or Up"),
    ("gate_shut", {"gate_x": "0,0.5"}, "x or Up"),
    ("sink_rest", {"sink_scores": "9,3,2,3"}, "was changed"),
    ("sink_rest", {"sink_scores": "4,-1,-2,0", "sink_values": "0,0,0,0,0,0,0,0"}, "was changed"),
    ("sink_rest", {"sink_scores": "4,-1,-2,0", "sink_drop": "true"}, "is dropped"),
]


def test_equal_places_are_an_answer_whatever_the_words() -> None:
    edited = {"order_words": "5,0,0,1,0,9", "order_places": "2,1,0,0,2,1"}
    assert "order_equal" in answered(
        open_page("textbook", chapter="order", order_on="true", **edited)
    )


@pytest.mark.parametrize(("id", "address", "said"), NOT_DONE)
def test_what_is_no_answer_is_none_and_is_told(id: str, address: dict[str, str], said: str) -> None:
    at = open_page("textbook", chapter=chapter_of(id), **address)
    assert id not in answered(at)
    assert any(said in plain(caption.value) for caption in at.caption)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nothing_is_told_that_no_one_asked(chapter: str) -> None:
    """As a chapter opens, only a number that is asked for may stand below a question."""
    at = open_page("textbook", chapter=chapter)
    captions = [plain(c.value) for c in at.caption]
    told = [text for text in captions if any(said in text for *_, said in NOT_DONE)]
    assert told == (["The lowest in the table is −0.1543."] if chapter == "mlp" else [])


@pytest.mark.parametrize("chapter", dict.fromkeys(map(chapter_of, TYPED)))
def test_questions_are_answered_in_words(chapter: str) -> None:
    at = open_page("textbook", chapter=chapter)
    ids = [id for id in TYPED if chapter_of(id) == chapter]
    for id in ids:
        at.text_input(key=f"answer_{id}").set_value("7777")
    at.run()
    assert answered(at) == []
    for n, id in enumerate(ids):
        at.text_input(key=f"answer_{id}").set_value(TYPED[id]).run()
        assert answered(at) == ids[: n + 1]
    assert not at.exception


def test_a_head_that_looks_at_itself_is_found() -> None:
    ids = gpt2viz.load_model().tokenizer.encode("A crane ate fish")
    weights = np.array(reference(BUNDLED, ids, True)["weights"])  # (n_layer, nh, T, T)
    itself = np.diagonal(weights, axis1=2, axis2=3)[..., 1:].mean(axis=-1)
    layer, head = np.unravel_index(itself.argmax(), itself.shape)
    at = open_page("textbook", chapter="heads", layer=str(layer), head=str(head))
    assert answered(at) == ["real_self"]
    layer, head = np.unravel_index(itself.argmin(), itself.shape)
    at = open_page("textbook", chapter="heads", layer=str(layer), head=str(head))
    assert answered(at) == []
    # Every token's largest weight is what is asked for, not the largest mean of all heads.
    most = (weights.argmax(axis=-1) == np.arange(len(ids))).all(axis=-1)
    layer, head = np.argwhere(most & (itself < itself.max() - 0.05))[0]
    at = open_page("textbook", chapter="heads", layer=str(layer), head=str(head))
    assert answered(at) == ["real_self"]


def test_progress_survives_chapters_and_marks_the_finished_one() -> None:
    at = open_page("textbook", chapter="mistakes", try_nh="7")
    at.text_input(key="answer_mistake_25").set_value("1000").run()
    at.radio(key="chapter").set_value("crane").run()
    assert answered(at) == ["mistake_made", "mistake_25"]
    assert any("2 of " in caption.value for caption in at.caption)
    ticked = [option for option in at.radio(key="chapter").options if "✓" in option]
    assert ticked == [f"{len(LESSONS)}. Common mistakes ✓"]


@pytest.mark.parametrize(
    ("given", "answer", "expected"),
    [
        ("(2,4,3)", "(2, 4, 3)", True),
        ("2 4 3", "(2, 4, 3)", True),
        ("(2, 4)", "(2, 4, 3)", False),
        ("(2, 3, 4)", "(2, 4, 3)", False),
        ("1.39", "1.386", True),
        ("1.40", "1.39", False),
        ("−1", "-1", True),
        ("1,000", "1000", True),
        (" STEP", "step", True),
        ("one", "step", False),
        ("", "6", False),
    ],
)
def test_typed_answers(given: str, answer: str, expected: bool) -> None:
    assert right(given, answer) == expected


def test_the_code_stands_beside_the_pictures_of_a_head() -> None:
    at = open_page("head", layer="2")
    run = gpt2viz.trace(gpt2viz.load_model(), "A crane ate fish")
    blocks = [block.value for block in at.code if MARK in block.value]
    assert len(blocks) == len(gpt2viz.HEAD_STAGES)
    for key, block in zip(gpt2viz.HEAD_STAGES, blocks, strict=True):
        record = run.record(key, 2)
        assert record is not None
        assert record.code in block.partition(MARK)[2].splitlines()[1]


def test_a_long_text_has_the_code_that_derives_its_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracer, "EXPLICIT_BYTES", 0)  # now every text counts as long
    at = open_page("attention", text="A crane has derived this")
    block = next(block.value for block in at.code if "softmax" in block.value)
    assert block.lstrip().startswith("def forward")
    assert MARK not in block


TEXTS = ["<b>$x$ [l](u) :smile:</b>", "a", "the bank " * 60, "👩‍🚀 naïve"]
#: Chapters that read the sentence for the story alone: one text is enough for each.
STORY = ("order", "crane", "by-hand", "mask", "mlp", "residual")


@pytest.mark.parametrize(
    ("chapter", "text"),
    [
        (name, text)
        for name, chapter in CHAPTERS.items()
        if chapter.reads_sentence
        for text in (TEXTS[:1] if name in STORY else TEXTS)
    ],
)
def test_chapters_read_any_sentence(chapter: str, text: str) -> None:
    at = open_page("textbook", chapter=chapter, text=text, causal="false")
    assert at.header[0].value == CHAPTERS[chapter].title
    assert tuple(questions(at.main)) == CHAPTERS[chapter].questions


ANSWERED = {"crane": ["crane_half"], "mask": ["mask_row", "mask_even"]}


def test_a_progress_file_comes_back() -> None:
    at = open_page("textbook", chapter="order", order_on="true")
    assert answered(at) == ["order_on"]
    at.file_uploader(key="open_progress").upload(
        "progress.json", json.dumps({"answered": ANSWERED}).encode(), "application/json"
    ).run()
    found = {name: ids for name, ids in at.session_state["_progress"].items() if ids}
    assert found == ANSWERED | {"order": ["order_on"]}
    assert any("4 of " in caption.value for caption in at.caption)
    assert not at.error
    (again,) = (button for button in at.button if button.label == "Start again")
    again.click().run()
    assert answered(at) == ["order_on"]  # it is still on screen


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"x", b"[]", b"{}", b"null", b"\xff\xfe", b"[" * 50_000, b" " * 200_000),
        *(b'{"answered": 1}', b'{"answered": {"mask": 1}}', b'{"answered": {"mask": "mask_row"}}'),
    ],
    ids=range(11),
)
def test_a_file_that_is_no_progress_changes_nothing(content: bytes) -> None:
    at = open_page("textbook", chapter="mask")
    at.file_uploader(key="open_progress").upload("x.json", content, "application/json").run()
    assert not at.exception
    assert [error.value for error in at.error] == ["This file holds no Textbook progress."]
    assert answered(at) == []


def test_only_questions_that_there_are_are_taken_over() -> None:
    known = {name: chapter.questions for name, chapter in CHAPTERS.items()}
    odd = {"mask": ["mask_row", "mask_row", "crane_half", 7, None, {}], "nobody": ["mask_row"]}
    assert progress.taken(odd, known) == {name: [] for name in known} | {"mask": ["mask_row"]}
