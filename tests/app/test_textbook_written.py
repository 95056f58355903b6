"""What a chapter writes follows from what it writes: every formula is worked out again from it.

The reader's way: numbers are taken from the formulas as they stand on the page, and from nowhere
else but the page's own tables. After every kind of edit, and with very small and large numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from gpt2viz.app.course.contents import CHAPTERS
from gpt2viz.app.course.written import enough, equals, given, in_a_field
from gpt2viz.textbook import mlp, steps
from tests.app.pages import open_chapter, open_page
from tests.numpy_gpt2 import softmax

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?|-?\\infty")


def formulas(at: AppTest, begins: str) -> list[str]:
    """The formulas of a page that begin so, without what they begin with."""
    found = [element.value.strip("$ \n") for element in at.latex]
    return [text.removeprefix(begins) for text in found if text.startswith(begins)]


def formula(at: AppTest, begins: str) -> str:
    (found,) = formulas(at, begins)
    return found


def numbers(text: str) -> np.ndarray:
    read = [found.replace("\\infty", "inf") for found in _NUMBER.findall(text)]
    return np.array(read, float)


def follows(written: str, expected: object) -> None:
    """The numbers of ``written`` are ``expected``, to the last digit that they have.

    After = exactly, after ≈ to within one unit of the last decimal: what is rounded twice.
    """
    sign, _, rest = written.strip().partition(" ")
    assert sign in ("=", r"\approx"), written
    found, wanted = numbers(rest), np.ravel(np.asarray(expected, float))
    assert len(found) == len(wanted), written
    decimals = len(re.findall(r"\.(\d+)", rest)[0])
    unit = 10.0**-decimals * (1e-3 if sign == "=" else 1)
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1.001 * unit, err_msg=written)


def spelled(values: Iterable[float]) -> str:
    return ",".join(map(str, values))


KEYS = {
    "as it is": [],
    "many digits": [0.123, 0.4567, -0.98765, 0.5, 0.33333, 0.1],
    "large": [12.5, -3.75, 9.125, 20, -7.5, 1],
    "small": [0.001, 0.0002, 0.0003, 0.0001, 0.002, 0.0015],
}
VALUES = {"as it is": [], "large": [99, -100, 50.5, 0.25, -33.3, 77]}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("keys", KEYS)
def test_the_crane_follows_from_its_tables(keys: str, values: str) -> None:
    edits = {"crane_k_bird": KEYS[keys], "crane_v_bird": VALUES[values]}
    asked = {name: spelled(table) for name, table in edits.items() if table}
    at = open_chapter("crane", **asked)
    k = np.array(edits["crane_k_bird"] or steps.CRANE_KEYS["bird"], float).reshape(3, 2)
    v = np.array(edits["crane_v_bird"] or steps.CRANE_VALUES["bird"], float).reshape(3, 2)
    line = formula(at, r"q \cdot K^\top ")
    follows(line, k @ [0.7, 0.7])
    scores = numbers(line)
    line = formula(at, r"\text{softmax} ")
    follows(line, softmax(scores))
    follows(formula(at, r"\text{new vector} = \text{weights}\cdot V "), numbers(line) @ v)


@pytest.mark.parametrize("query", [0, 1, 5])
@pytest.mark.parametrize("factor", [1, 0.01, 7.77])
def test_the_journey_follows_from_its_table(query: int, factor: float) -> None:
    x = (np.array(steps.JOURNEY_X) * factor).round(5)
    at = open_page("textbook", chapter="by-hand", journey_q=str(query), journey_x=spelled(x.flat))
    line = formula(at, r"\text{scores} ")
    follows(line, x @ x[query])
    weights = formula(at, r"\text{weights} ")
    follows(weights, softmax(numbers(line)))
    follows(formula(at, r"\text{context vector} "), numbers(weights) @ x)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("edited", [False, True])
def test_masked_rows_follow_from_the_scores_beside_them(causal: bool, edited: bool) -> None:
    scores = np.array(steps.PRINTED_SCALED)
    if edited:
        scores = scores * 3 + 0.00123
    at = open_chapter(
        "mask",
        mask_on=str(causal).lower(),
        mask_scores=spelled(scores.round(6).flat),
    )
    for n, word in enumerate(steps.SENTENCE):
        line = formula(at, rf"\text{{{word}: }} \text{{softmax}}")
        before, _, after = line.partition("])")
        row = numbers(before)
        hidden = np.isneginf(row)
        assert hidden.tolist() == [causal and key > n for key in range(4)]
        np.testing.assert_allclose(row[~hidden], scores.round(6)[n][~hidden], rtol=1e-7)
        follows(after, softmax(row))


@pytest.mark.parametrize(
    "edit",
    [
        {},
        {"lin_x": "0.123,-0.4567", "lin_w": spelled([0.987, 0.654, -1, 0, 0, 2, 0, -2])},
        {"lin_x": "0.005,99.999", "lin_b": "0.004,0,1,2"},
    ],
)
def test_the_linear_layers_sum_follows_from_its_terms(edit: dict[str, str]) -> None:
    at = open_page("textbook", chapter="mlp", **edit)
    terms, sign, result = re.split(r" (=|\\approx) ", formula(at, r"\text{out}_0 = "))
    a, w, b, v, bias = numbers(terms)
    follows(f"{sign} {result}", a * w + b * v + bias)
    x = np.array(edit.get("lin_x", spelled(mlp.LINEAR_X)).split(","), float)
    assert [a, b] == x.tolist()


@pytest.mark.parametrize("words", ["0.9,0.1,0.1,0.8,0.7,0.3", "0.12345,0.005,1,2,3,4"])
@pytest.mark.parametrize("on", ["true", "false"])
def test_places_are_added_as_they_are_written(words: str, on: str) -> None:
    at = open_page("textbook", chapter="order", order_on=on, order_words=words)
    for name in ("first", "last"):
        one, other, rest = formula(at, rf"\text{{crane, {name}: }} ").split("]", 2)
        assert numbers(one).tolist() == [float(x) for x in words.split(",")[:2]]
        follows(rest, numbers(one) + numbers(other))


@pytest.mark.parametrize(
    "rows",
    [
        "",
        spelled([0.001, 0.0011, 0.0009, 0.001, 1, 1, 1, 1, 0, 0, 0, 0]),
        spelled([100, -99.5, 3.25, 0.125, 50, -20, 3, 1, 0.001, 2, 3, 4]),
        spelled([2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0]),
    ],
)
def test_layer_norm_follows_line_by_line(rows: str) -> None:
    at = open_page("textbook", chapter="residual", **({"norm": rows} if rows else {}))
    table = rows or spelled([0.3, 0, 0.5, 0.1, 1, 1, 1, 1, 0, 0, 0, 0])
    x, gain, shift = np.array(table.split(","), float).reshape(3, 4)
    first, second = formula(at, r"\mu ").split(r" \qquad \sigma^2 ")
    follows(first, x.mean())
    follows(second, x.var())
    centred = formula(at, r"x - \mu ")
    follows(centred, x - numbers(first))
    normed = formula(at, r"\frac{x-\mu}{\sqrt{\sigma^2+\varepsilon}} ")
    follows(normed, numbers(centred) / np.sqrt(numbers(second) + 1e-5))
    follows(formula(at, r"\cdot\,\gamma + \beta "), numbers(normed) * gain + shift)


@pytest.mark.parametrize("heat", ["0.1", "1.0", "10.0"])
@pytest.mark.parametrize("x", ["", "0.123,-0.4567", "-30,70"])
def test_probabilities_and_loss_follow_from_the_logits(heat: str, x: str) -> None:
    asked = {"last_x": x} if x else {}
    at = open_chapter("next-word", heat=heat, target="steel", **asked)
    last = np.array((x or "1.6,0.4").split(","), float)
    line = formula(at, "z ")
    follows(line, np.array([[0.9, 0.1], [0.1, 0.9], [0.3, 0.3], [0.8, -0.4]]) @ last)
    z = numbers(line)
    follows(formula(at, rf"p = \text{{softmax}}(z / {float(heat):g}) "), softmax(z / float(heat)))
    (loss,) = formulas(at, "t = 1:")
    follows(loss.partition(r"z_{\text{steel}} ")[2], np.logaddexp.reduce(z) - z[1])


@pytest.mark.parametrize(
    ("chapter", "asked", "begins", "right"),
    [
        ("heads", {"way_C": "1280", "way_nh": "12"}, "h_s = 1280 / 12 ", 1280 / 12),
        ("mistakes", {"try_nh": "7"}, "h_s = C / n_h = 768 / 7 ", 768 / 7),
        ("residual", {"depth": "24"}, r"0.02 / \sqrt{2 \cdot 24} ", 0.02 / np.sqrt(48)),
    ],
)
def test_quotients_say_that_they_are_rounded(
    chapter: str, asked: dict[str, str], begins: str, right: float
) -> None:
    at = open_chapter(chapter, **asked)
    written = formula(at, begins)
    assert written.startswith(r"\approx")
    follows(written, right)


def test_no_formula_hides_digits_behind_an_equals_sign() -> None:
    """A guard for formulas to come: whatever stands after = with four decimals is exact."""
    assert equals([0.5, 1.25]) == r"= [0.5000,\; 1.2500]"
    assert equals(1 / 3) == r"\approx 0.3333"
    assert equals([0.5, 1 / 3]).startswith(r"\approx")
    assert equals([1.0, -np.inf]) == r"= [1.0000,\; -\infty]"
    assert equals(-1e-9) == "= 0.0000"
    assert equals(1280 / 12) == r"\approx 106.6667"
    assert given(np.array([0.1, 16_777.215, -3], np.float32)) == r"[0.1,\; 16777.215,\; -3]"


def test_as_many_decimals_as_the_result_needs() -> None:
    def times(factor: float) -> Callable[[np.ndarray], np.ndarray]:
        return lambda x: factor * x

    for factor, digits in ((1, 4), (0.001, 4), (100, 6), (10_000, 7)):
        value = np.array([0.123456789])
        found = enough(value, times(factor), factor * value)
        assert found == digits
        assert np.allclose(factor * value.round(found), factor * value, rtol=3e-7, atol=5e-5)


def test_fields_show_the_numbers_that_are_used_or_say_that_they_are_rounded() -> None:
    assert [in_a_field(x) for x in (0.7, -100, 0.12345, 1e-3)] == [
        "0.7",
        "-100",
        "0.12345",
        "0.001",
    ]
    assert in_a_field(0.336690366) == "0.3367"
    rounded = "Rounded to four digits"
    at = open_chapter("crane")
    assert not any(rounded in caption.value for caption in at.caption)
    at = open_chapter("crane", crane_q="0.12345,0.7")
    assert not any(rounded in caption.value for caption in at.caption)
    at = open_chapter("crane", crane_q="0.123456789,0.7")
    assert sum(rounded in caption.value for caption in at.caption) == 1


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_chapter_says_what_its_signs_mean(chapter: str) -> None:
    at = open_chapter(chapter)
    assert any(caption.value.startswith("≈ marks a rounded number") for caption in at.caption)
