"""The Textbook's story: the tiny crane's numbers on the page, and the same step in the real model.

Against NumPy, which shares no code with either, and along each link to the page that it opens.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

import gpt2viz
from gpt2viz.app.course import story
from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.model.checkpoint import BUNDLED
from tests.app.pages import figure, heatmaps, masks, open_page, plain, sent
from tests.app.test_textbook_written import follows, numbers
from tests.numpy_gpt2 import ACTIVATIONS, read, reference
from tests.textbook.oracle import hidden, softmax, tiny_looks, tiny_story, tiny_worked_out

CRANE = "A crane ate fish"
LONG = "the bank of the river " * 12  # 60 tokens
#: A chapter's pictures, and for each of their panels what the oracle calls it.
TINY = {
    "tokens": {"tiny_tokens": {"token vectors": "tokens"}},
    "order": {
        "tiny_order": {
            "token vectors": "tokens",
            "their sum x": "x",
        }
    },
    "crane": {"tiny_qkv": {"their sum x": "x"}},
    "heads": {
        "tiny_merged": {"outputs, side by side": "merged", "what attention adds": "attention"}
    },
    "mlp": {
        "tiny_mlp": {
            "x + attention": "mid",
            "in the middle": "widened",
        },
        "tiny_mlp_adds": {"after ReLU": "bent", "what the MLP adds": "mlp"},
    },
    "next-word": {
        "tiny_logits": {"all logits": "logits"},
        "tiny_chances": {"all probabilities": "probabilities"},
    },
}


@cache
def chapter(name: str) -> AppTest:
    return open_page("textbook", chapter=name)


def said(at: AppTest) -> str:
    return plain("\n".join(element.value for element in at.markdown)).replace("\\", "")


def formulas(at: AppTest) -> str:
    return "\n".join(block.value for block in at.latex)


def test_it_is_told_from_the_first_chapter_to_the_next_word() -> None:
    told = [name for name in CHAPTERS if name in story.CHAPTERS]
    assert tuple(told) == story.CHAPTERS
    assert (told[0], told[-1]) == ("tokens", "next-word")
    titles = [element.value for element in chapter("mask").subheader]
    assert titles[-2:] == ["The tiny crane", "The same step in the real model"]


@pytest.mark.parametrize("name", TINY)
def test_pictures_show_the_steps_of_the_oracle(name: str) -> None:
    for key, panels in TINY[name].items():
        drawn = heatmaps(figure(chapter(name), key))
        for title, step in panels.items():
            assert_allclose(drawn[title], tiny_story()[step], atol=1e-5, err_msg=title)


def test_the_sums_of_fish_are_written_out() -> None:
    scores, scaled = [-9, 6, -12, 0], np.array([-9, 6, -12, 0]) / np.sqrt(2)
    for word, key, score in zip(
        CRANE.split(), ("-1, -2", "2, 0", "0, -4", "2, -2"), scores, strict=True
    ):
        first, second = (f"({one})" if one < "0" else one for one in key.split(", "))
        line = rf"{word}: }} 3 \cdot {first} + 3 \cdot {second} = {score}"
        assert line in formulas(chapter("crane"))
    weights = softmax(scaled)
    written = formulas(chapter("by-hand"))
    assert r"[-9,\; 6,\; -12,\; 0] / \sqrt{2} \approx [-6.36396" in written
    assert ",\\; ".join(f"{weight:.5f}" for weight in weights) in written
    output = weights @ [[-1, 1], [2, 0], [0, 2], [2, 1]]
    assert (
        rf"\text{{mixture: weights}} \cdot V \approx [{output[0]:.4f},\; {output[1]:.4f}]"
        in written
    )


def test_the_mask_hides_later_words_from_both_heads() -> None:
    x = tiny_story()["x"]
    scaled = tiny_looks(x)
    later = ~np.tri(4, dtype=bool)
    of_the_mask = figure(chapter("mask"), "tiny_scores"), figure(chapter("mask"), "tiny_weights")
    for spec, expected in zip(of_the_mask, (scaled[0], softmax(hidden(scaled[0]))), strict=True):
        (drawn,) = heatmaps(spec).values()
        assert_allclose(drawn[~later], expected[~later], atol=1e-5)
        assert_allclose(masks(spec)[0], later)
    outputs = [
        [float(n) for n in re.findall(r"-?\d+\.\d+", line)]
        for line in formulas(chapter("mask")).splitlines()
        if r": weights} \cdot V" in line
    ]
    assert_allclose(outputs, softmax(hidden(scaled[0])) @ x[:, :2], atol=5.1e-5)
    looks = heatmaps(figure(chapter("heads"), "tiny_heads")).values()
    for drawn, scores in zip(looks, scaled, strict=True):
        assert_allclose(drawn, softmax(hidden(scores)), atol=1e-5)


def test_the_stream_of_fish_adds_up() -> None:
    found, at = tiny_story(), chapter("residual")
    (drawn,) = heatmaps(figure(at, "tiny_stream")).values()
    parts = [found[name][3] for name in ("tokens", "positions", "attention", "mlp", "end")]
    assert_allclose(drawn, parts, atol=1e-5)
    (line,) = (block.value for block in at.latex if "thing: " in block.value)
    *added, total = (float(n) for n in re.findall(r"-?\d+\.\d+", line))
    assert_allclose(added, [part[0] for part in parts[:-1]], atol=5e-5)
    assert total == pytest.approx(parts[-1][0], abs=5e-5)


#: The shape of each table of the tiny crane, by its name in the address.
SHAPES = {"tiny_words": (5, 4), "tiny_places": (4, 4), "tiny_merge": (4, 4)}
SHAPES |= {f"tiny_{part}{head}": (2, 4) for head in (0, 1) for part in "qkv"}
SHAPES |= {"tiny_widen": (3, 5), "tiny_back": (4, 3)}
PLAIN = ("words", "places", "merge", "widen", "back")
EDITED = {
    name: np.random.default_rng(n).uniform(-1.5, 1.5, shape).round(2)
    for n, (name, shape) in enumerate(SHAPES.items())
}


@cache
def expected() -> dict[str, np.ndarray]:
    """What the oracle makes of the edited tables."""
    heads = [tuple(EDITED[f"tiny_{part}{head}"] for part in "qkv") for head in (0, 1)]
    words, places, *rest = (EDITED[f"tiny_{n}"] for n in PLAIN)
    return tiny_worked_out(words, places, heads, *rest)


@cache
def edited(name: str) -> AppTest:
    """A chapter with every table of the tiny crane edited."""
    spelled = {table: ",".join(map(str, values.flat)) for table, values in EDITED.items()}
    return open_page("textbook", chapter=name, **spelled)


@pytest.mark.parametrize("name", ["crane", "heads", "mlp", "next-word"])
def test_edited_tables_are_followed_by_every_later_step(name: str) -> None:
    for key, panels in TINY[name].items():
        drawn = heatmaps(figure(edited(name), key))
        for title, step in panels.items():
            assert_allclose(drawn[title], expected()[step], atol=1e-4, err_msg=title)
    assert not edited(name).warning


def test_formulas_follow_from_edited_tables() -> None:
    lines = formulas(edited("crane")).splitlines()
    terms = [
        line.partition("fish and ")[2].partition(": } ")[2] for line in lines if "fish and " in line
    ]
    q, k = (expected()["x"] @ EDITED[f"tiny_{part}0"].T for part in "qk")
    for line, score in zip(terms, k @ q[3], strict=True):
        a, b, c, d, *_ = numbers(line)
        follows(line[re.search(r"= |\\approx", line).start() :], a * b + c * d)  # type: ignore[union-attr]
        assert a * b + c * d == pytest.approx(score, abs=1e-4)
    lines = formulas(edited("mlp")).splitlines()
    x = numbers(next(line for line in lines if r"\text{fish: } x" in line))
    neurons = np.maximum(np.append(x, 1) @ EDITED["tiny_widen"].T, 0)
    (line,) = (line for line in lines if "added: " in line)
    written, _, result = line.rpartition(r" \approx")
    follows(rf"\approx{result}", neurons @ EDITED["tiny_back"].T)
    assert written.count(r"\cdot") == np.count_nonzero(neurons)
    each = [line.rpartition(r"\approx ")[2] for line in lines if r"\text{thing} " in line]
    assert_allclose([float(n) for n in each], neurons[neurons > 0], atol=1e-4)


#: What is said of the tables as they were made, and of no others.
OF_ITS_OWN = {
    "crane": ("looks for whoever did", "−2 times deed", "no deed"),
    "heads": ("one word back", "half the thing"),
    "mlp": ("that has no deed yet",),
    "next-word": ("clock's numbers are 0", "“.” after “fish”"),
}


@pytest.mark.parametrize("name", OF_ITS_OWN)
def test_what_holds_for_its_own_tables_is_said_of_no_others(name: str) -> None:
    for words in OF_ITS_OWN[name]:
        assert words in said(chapter(name))
        assert words not in said(edited(name))


def test_what_is_expected_of_edited_tables_is_said() -> None:
    words, chances = ("A", "crane", "ate", "fish", "."), expected()["probabilities"]
    best = [words[n] for n in chances.argmax(axis=1)]
    told = ", ".join(f"“{n}” after “{word}”" for n, word in zip(best, words[:4], strict=True))
    assert f"It expects {told}." in said(edited("next-word"))
    assert f"“{best[3]}” gets **{chances[3].max():.1%}**" in said(edited("next-word"))
    q, k = (expected()["x"] @ EDITED[f"tiny_{part}0"].T for part in "qk")
    assert f"“{words[(k @ q[3]).argmax()]}” fits best." in said(edited("crane"))


def test_tables_of_zeros_are_told_too() -> None:
    zeros = {name: ",".join(["0"] * values.size) for name, values in EDITED.items()}
    at = open_page("textbook", chapter="next-word", **zeros)
    everything = "“A”, “crane”, “ate”, “fish” and “.”"
    assert f"After “fish”, {everything} each get **20.0%**" in said(at)
    at = open_page("textbook", chapter="crane", **zeros)
    assert "“A”, “crane”, “ate” and “fish” fit best." in said(at)
    (back,) = (button for button in at.button if button.key == "tiny_reset")
    back.click().run()
    assert not set(EDITED) & set(at.query_params)
    assert "“crane” fits best: it is a thing, and no deed." in said(at)


JUNK = {
    "tiny_words": "1,2",
    "tiny_places": ",".join(["x"] * 16),
    "tiny_q0": "nan,0,0,0,0,0,0,0",
    "tiny_k1": "",
    "tiny_merge": "11" + ",0" * 15,
    "tiny_back": "inf" + ",0" * 11,
}


def test_tables_that_cannot_be_read_stay_as_they_were() -> None:
    at = open_page("textbook", chapter="next-word", **JUNK)
    (warning,) = at.warning
    assert warning.value.count("can't be shown here") == len(JUNK)
    assert "16 numbers from −10 to 10" in warning.value
    drawn = heatmaps(figure(at, "tiny_logits"))["all logits"]
    assert_allclose(drawn, tiny_story()["logits"], atol=1e-5)
    assert not set(JUNK) & set(at.query_params)


def test_fields_hold_what_the_address_holds() -> None:
    for name, table in {"heads": "tiny_merge", "mlp": "tiny_widen"}.items():
        fields = sent(edited(name), f"grid_{table}")
        assert_allclose(np.reshape(fields["values"], SHAPES[table]), EDITED[table], atol=1e-7)
    assert sent(chapter("order"), "grid_tiny_places")["values"] == [
        *(0, 0, 0, 1, 0, 0, 1, 0),
        *(0, 0, 0, -1, 0, 0, -1, 0),
    ]


def test_what_it_expects_is_said() -> None:
    best = "“crane” after “A”, “ate” after “crane”, “fish” after “ate”, “.” after “fish”"
    chance = tiny_story()["probabilities"][3].max()
    assert f"It expects {best}" in said(chapter("next-word"))
    assert f"After “fish”, “.” gets **{chance:.1%}**" in said(chapter("next-word"))


@cache
def oracle(text: str, causal: bool) -> dict[str, Any]:
    return reference(BUNDLED, list(gpt2viz.load_model().tokenizer.encode(text)), causal)


def link(at: AppTest, page: str, name: str) -> dict[str, str]:
    """What the chapter's link to a page asks for; ``name`` is a parameter that only it has."""
    links = [one.proto for one in at.get("page_link") if one.proto.page == page]
    asked = [dict(parse_qsl(one.query_string)) for one in links]
    (found,) = (one for one in asked if name in one)
    return found


CASES = [("A", True), (CRANE, False), (LONG, True)]


@pytest.mark.parametrize(("text", "causal"), CASES)
def test_the_link_lands_on_the_cell_whose_weight_is_told(text: str, causal: bool) -> None:
    at = open_page("textbook", chapter="mask", text=text, causal=str(causal).lower())
    asked = link(at, "head", "key")
    layer, head, query, key = (int(asked[n]) for n in ("layer", "head", "query", "key"))
    weights = oracle(text, causal)["weights"][layer][head]
    assert query == len(weights) - 1
    assert weights[query].max() == pytest.approx(weights[query, key], rel=1e-4)
    assert f"**{weights[query, key]:.3f}**" in said(at)
    there = open_page("head", **{name: asked[name] for name in asked if name != "chapter"})
    assert not there.warning
    assert f"query {there_label(text, query)} ({query}), key" in said(there)
    assert_allclose(heatmaps(figure(there, "stage_weights"))["weights"], weights, atol=1e-5)


def there_label(text: str, place: int) -> str:
    model = gpt2viz.load_model()
    return gpt2viz.trace(model, text).labels[place]


def neurons(at: AppTest, found: dict[str, Any], n: int) -> None:
    """The eight strongest neurons of layer 2, and what they, the others and the bias add."""
    checkpoint, mid = read(BUNDLED), found["residual_mid"][2][n]
    widened = checkpoint.linear(checkpoint.norm(mid, "h.2.ln_2"), "h.2.mlp.c_fc")
    bent = ACTIVATIONS[checkpoint.config["activation_function"]](widened)
    best = np.argsort(-abs(bent))[:8]
    spec = figure(at, "real_neurons")
    assert spec["data"][0]["x"] == [f"{place} {neuron}" for place, neuron in enumerate(best)]
    (values,) = heatmaps(spec).values()
    assert_allclose(values, [widened[best], bent[best]], atol=1e-4)
    assert f"are 1,024 neurons. Before the curve, {(widened > 0).sum()} are above 0" in said(at)
    added = checkpoint.w["h.2.mlp.c_proj.weight"][:, 0] * bent
    strong, bias = added[best].sum(), checkpoint.w["h.2.mlp.c_proj.bias"][0]
    numbers = re.findall(r"-?\d+\.\d+", formulas(at).splitlines()[-2])
    expected = [strong, added.sum() - strong, bias, found["mlp_output"][2][n, 0]]
    assert_allclose([float(number) for number in numbers], expected, atol=1e-4)


@pytest.mark.parametrize(("text", "query"), [(CRANE, "1"), ("A", "")])
def test_the_real_steps_are_those_of_the_model(text: str, query: str) -> None:
    found = oracle(text, True)
    n = int(query or len(found["embedding"]) - 1)
    chosen = {"text": text, "layer": "2", "head": "3"} | ({"query": query} if query else {})

    def drawn(name: str, key: str) -> np.ndarray:
        (values,) = heatmaps(figure(open_page("textbook", chapter=name, **chosen), key)).values()
        return values

    q, k = (found[part][2][3] for part in "qk")
    hardest = found["weights"][2][3][n].argmax()
    rows = [q[n], k[hardest], q[n] * k[hardest]]
    assert_allclose(drawn("crane", "real_qk"), np.array(rows)[:, :8], atol=1e-4)
    scores = [found[stage][2][3][n] for stage in ("scores", "scaled_scores")]
    assert_allclose(drawn("by-hand", "real_scaled"), scores, atol=1e-4)
    line = formulas(open_page("textbook", chapter="by-hand", **chosen)).splitlines()[-2]
    raw, divided = (float(n) for n in re.findall(r"-?\d+\.\d+", line))
    assert_allclose([raw, divided], [score[hardest] for score in scores], atol=1e-4)
    assert divided == pytest.approx(raw / np.sqrt(32), abs=1e-4)
    outputs = [*found["head_output"][2][:, n, :8], found["attention_output"][2][n, :8]]
    assert_allclose(drawn("heads", "real_outputs"), outputs, atol=1e-4)
    after = [found[stage][2][n, :8] for stage in ("residual_mid", "mlp_output")]
    assert_allclose(drawn("mlp", "real_mlp"), after, atol=1e-4)
    neurons(open_page("textbook", chapter="mlp", **chosen), found, n)
    stream = [("residual_out", 1), ("attention_output", 2), ("mlp_output", 2), ("residual_out", 2)]
    expected = [found[stage][layer][n, :8] for stage, layer in stream]
    assert_allclose(drawn("residual", "real_stream"), expected, atol=1e-4)
    assert_allclose(
        drawn("next-word", "real_logits")[0], -np.sort(-found["logits"][n])[:5], atol=1e-4
    )


def test_what_is_told_of_a_real_number_is_that_of_the_model() -> None:
    found, chosen = oracle(CRANE, True), {"layer": "1", "head": "4", "query": "2"}
    hardest = found["weights"][1][4][2].argmax()

    def told(name: str) -> str:
        return said(open_page("textbook", chapter=name, **chosen)).replace("−", "-")

    assert f"is the score, **{found['scores'][1][4][2, hardest]:.3f}**" in told("crane")
    assert "“A” sees only itself." in said(open_page("textbook", chapter="crane", query="0"))
    assert f"those of head 4 begin with {found['head_output'][1][4, 2, 0]:.3f}." in told("heads")
    id = gpt2viz.load_model().tokenizer.encode(CRANE)[2]
    number = read(BUNDLED)[1]["wte.weight"][id, 0]
    row = f"has the id **{id:,}**. So its vector is row {id:,} of the table, which begins with"
    assert f"{row} {number:.3f}." in told("tokens")


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("tokens", {"token_embedding"}),
        ("order", {"token_embedding", "position_embedding", "embedding"}),
        ("mlp", {"mlp_in", "mlp_act", "mlp_projected", "mlp_output"}),
        ("residual", {"residual_mid", "residual_out"}),
    ],
)
def test_the_link_lands_on_the_tensors_of_the_step(name: str, keys: set[str]) -> None:
    asked = link(open_page("textbook", chapter=name, layer="2"), "shapes", "filter")
    there = open_page("shapes", filter=asked["filter"])
    (table,) = (frame.value for frame in there.dataframe)
    assert keys <= set(table["key"])
    assert set(table["layer"].dropna()) <= {2}


def test_what_is_told_of_the_next_word_is_told_on_predict() -> None:
    at = chapter("next-word")
    found = oracle(CRANE, True)["next_token_probabilities"]
    assert f"**{found.max():.1%}**" in said(at)
    asked = link(at, "predict", "predict")
    there = open_page("predict", **{name: asked[name] for name in ("predict", "query")})
    (table,) = (frame.value for frame in there.dataframe if "model (%)" in frame.value)
    assert table["model (%)"].iloc[0] == pytest.approx(100 * found.max(), rel=1e-3)


def switches(**address: str) -> set[str]:
    at = open_page("textbook", **address)
    return {str(toggle.key) for toggle in at.toggle} & {"causal", "endoftext"}


def test_a_switch_comes_with_the_chapter_that_explains_it() -> None:
    assert switches(chapter="by-hand") == set()
    assert switches(chapter="mask") == {"causal"}
    assert switches(chapter="sinks") == {"causal", "endoftext"}
    assert switches(chapter="tokens", causal="false", endoftext="true") == {"causal", "endoftext"}
