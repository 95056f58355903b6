"""Frames as values: the position, length and shade of every block follow from its number."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import numpy as np
import pytest

from gpt2viz.pictures import frames, svg
from gpt2viz.pictures.frames import Frame, Mark, Stop
from gpt2viz.pictures.palette import DARK, LIGHT, Palette, ink
from tests.pictures.samples import still

SVG = "{http://www.w3.org/2000/svg}"


def marks(frame: Frame) -> dict[str, Mark]:
    result = {mark.key: mark for mark in frame.marks}
    assert len(result) == len(frame.marks)  # unique keys, else blocks would swap
    for mark in frame.marks:
        assert mark.x >= 0
        assert mark.x + mark.wide <= 1 + 1e-9
    return result


def test_mask_cells_have_the_position_and_shade_of_their_number() -> None:
    scores = np.array([[0.5, -np.inf], [-2.0, 1.0]])
    weights = np.array([[1.0, 0.0], [0.05, 0.95]])
    weights[0, 1] = 0
    masked = frames.closing_mask([(scores, weights)], ("A", "crane"), ["closed"])
    result = marks(masked.frames[0])
    assert result["scores 0 1"].role == "masked"
    assert result["scores 0 1"].text == "−∞"
    for (row, column), value in np.ndenumerate(scores):
        if np.isfinite(value):
            cell = result[f"scores {row} {column}"]
            assert (cell.role, cell.share) == ("signed", value / 2)
    assert [result[f"weights 1 {n}"].share for n in (0, 1)] == [0.05, 0.95]
    assert result["weights 1 1"].text == "0.95"
    for name in ("scores", "weights"):
        cells = [[result[f"{name} {row} {column}"] for column in (0, 1)] for row in (0, 1)]
        assert cells[0][0].x == cells[1][0].x < cells[0][1].x
        assert cells[0][0].y == cells[0][1].y < cells[1][0].y
        assert cells[0][1].x == result[f"{name} column 1"].x
    assert result["scores 1 1"].x + result["scores 1 1"].wide < result["weights 1 0"].x
    assert result["row 1"].y == result["scores 1 0"].y
    assert all(mark.y + mark.tall <= masked.lines + 1e-9 for mark in result.values())


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_a_still_is_drawn_as_its_frame(colors: Palette) -> None:
    """With one scale across and one down; words that look like markup are escaped."""
    picture = still(1)
    root = ElementTree.fromstring(svg.draw(picture, colors).svg())  # noqa: S314 (our own)
    blocks = [mark for mark in picture.frame.marks if mark.role != ""]
    drawn = list(root.iter(f"{SVG}rect"))[1:]  # the first is the page
    assert [rect.attrib["fill"] for rect in drawn] == [block.fill(colors) for block in blocks]
    for start, size, ends in (
        ("x", "width", [(block.x, block.wide) for block in blocks]),
        ("y", "height", [(block.y, block.tall) for block in blocks]),
    ):
        result = np.array([[float(rect.attrib[name]) for name in (start, size)] for rect in drawn])
        expected = np.array(ends)
        scale = result[0, 1] / expected[0, 1]
        result[:, 0] -= result[0, 0] - expected[0, 0] * scale
        np.testing.assert_allclose(result, expected * scale, atol=0.02)
    caption, *words = root.iter(f"{SVG}text")
    assert caption.text == "One row is <closed>"
    marks = [mark for mark in picture.frame.marks if mark.text]
    assert [word.text for word in words] == [mark.text for mark in marks]
    assert {"−∞", "<b>"} < {mark.text for mark in marks}
    fills = [mark.fill(colors) for mark in marks]
    assert [word.attrib["fill"] for word in words] == [ink(f) if f else colors.ink for f in fills]


def test_a_hidden_weight_is_masked_only_in_its_own_frame() -> None:
    scores, weights = np.zeros((2, 2)), np.full((2, 2), 0.5)
    closed = np.array([[0, -np.inf], [0, 0]]), np.array([[1, 0], [0.5, 0.5]])
    states = [(scores, weights), closed]
    first, second = (
        marks(frame)["weights 0 1"]
        for frame in frames.closing_mask(states, ("a", "b"), ["", ""]).frames
    )
    assert (first.role, first.text) == ("unit", "0.50")
    assert (second.role, second.text) == ("masked", "0")


def test_a_mixture_moves_by_each_words_weighted_value() -> None:
    bird = np.array([[0.5, 0.5], [0.7, 0.3], [0.9, -0.1]]), np.array([0.4, 0.3, 0.3])
    machine = bird[0][:, ::-1], bird[1]
    both = []
    for words, (values, weights) in zip(("abc", "axy"), (bird, machine), strict=True):
        ends = np.vstack([[0, 0], np.cumsum(weights[:, None] * values, axis=0)])
        both.append(frames.Mixture(words, weights, values, ends))
    drawn = frames.mixing((both[0], both[1]), "new", ("animal", "machine"))
    points = np.vstack([mixture.ends for mixture in both] + [mixture.values for mixture in both])
    wide, tall = (0.86, drawn.lines - 2) / np.ptp(points, axis=0).max()
    origin = marks(drawn.frames[0])["mixture"]
    for n, frame in enumerate(drawn.frames):
        mixture = both[n == 4]
        shown = marks(frame)
        at = mixture.ends[min(n, 3)]
        new = shown.pop("mixture")
        assert [shown.pop(key).text for key in ("up", "right")] == ["machine ↑", "animal →"]
        moved = (new.x - origin.x) / wide, (origin.y - new.y) / tall
        np.testing.assert_allclose(moved, at, atol=1e-9)
        assert [mark.text for mark in shown.values()] == list(mixture.words)
        assert [mark.share for mark in shown.values()] == mixture.weights.tolist()
        for value, mark in zip(mixture.values, shown.values(), strict=True):
            placed = (mark.x - origin.x) / wide, (origin.y - mark.y) / tall
            np.testing.assert_allclose(placed, value, atol=1e-9)
        assert all(0 <= mark.y <= drawn.lines - 1 - mark.tall for mark in shown.values())
    assert [frame.caption.split()[0] for frame in drawn.frames[1:4]] == ["“a”", "“b”", "“c”"]
    assert drawn.frames[4].caption == "The same word with “x y”: now [0.26, 0.68]."


def test_pieces_merge_in_place_and_only_the_new_one_is_highlighted() -> None:
    states = [(b" ", b"l", b"o", b"l", b"o"), (b" ", b"lo", b"l", b"o"), (b" ", b"lo", b"lo")]
    drawn = frames.merging_pieces(states, list("abc"))
    assert drawn.what == "The merges of ·lolo"
    for frame, pieces in zip(drawn.frames, states, strict=True):
        shown = list(marks(frame).values())
        assert [mark.text for mark in shown] == [
            "·" * (p == b" ") + p.decode().strip() for p in pieces
        ]
        wide = [5 * mark.wide + 0.1 for mark in shown]
        np.testing.assert_allclose(wide, list(map(len, pieces)))
        starts = [5 * mark.x for mark in shown]
        np.testing.assert_allclose(starts, np.cumsum([0, *map(len, pieces[:-1])]))
    new = [[mark.key for mark in frame.marks if mark.role == "accent"] for frame in drawn.frames]
    assert new == [[], ["byte 1"], ["byte 3"]]


def test_split_heads_keep_the_size_and_order_of_blocks(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, int]] = [(4, 12), (3, 24), (1, 1), (4, 4), (1, 6), (4, 1), (2, 2)]
    for T, nh in cases:
        with subtests.test(T=T, nh=nh):
            C, hs = nh * 5, 5
            x = np.arange(T * C).reshape(T, C)
            cut = x.reshape(T, nh, hs)
            apart = np.moveaxis(cut, 1, 0)
            drawn = frames.splitting_heads([x, cut, apart, cut, x], nh, list("abcde"))
            whole, split, sheets, again, merged = map(marks, drawn.frames)
            assert split == again
            assert whole == merged
            blocks = [(token, head) for token in range(T) for head in range(nh)]
            for result in (whole, split, sheets):
                assert sum(not key.startswith(("token", "head")) for key in result) == T * nh
                for token, head in blocks:
                    mark = result[f"{token} {head}"]
                    assert mark.wide == whole["0 0"].wide
                    assert mark.role == head % 4
                    assert mark.y + mark.tall <= drawn.lines + 1e-9
                corners = {
                    (round(result[f"{t} {h}"].x, 6), round(result[f"{t} {h}"].y, 6))
                    for t, h in blocks
                }
                assert len(corners) == len(blocks)
            for token in range(T):
                row = [whole[f"{token} {head}"] for head in range(nh)]
                gaps = [b.x - a.x - a.wide for a, b in itertools.pairwise(row)]
                assert np.allclose(gaps, 0)  # one row, uncut
                cuts = [split[f"{token} {head}"] for head in range(nh)]
                gaps = [b.x - a.x - a.wide for a, b in itertools.pairwise(cuts)]
                assert all(gap > 0.001 for gap in gaps)
                assert len({mark.y for mark in row + cuts}) == 1
            for head in range(nh):  # each head's tokens in a column, under its name
                column = [sheets[f"{token} {head}"] for token in range(T)]
                assert len({mark.x for mark in column}) == 1
                assert np.allclose(np.diff([mark.y for mark in column]), column[0].tall)
                title = sheets[f"head {head}"]
                assert title.y + title.tall == pytest.approx(column[0].y)
                assert title.x + title.wide / 2 == pytest.approx(column[0].x + column[0].wide / 2)


def test_bars_have_lengths_in_proportion_to_their_numbers() -> None:
    first = Stop("a", 2.0, 2.0, None, [(7, "·x"), (9, "·y")], [1.0, 0.25])
    then = Stop("b", 3.0, 4.0, -0.5, [(9, "·y"), (3, "z" * 30)], [0.5, np.nan])
    before, after = map(marks, frames.way_through([first, then]).frames)
    long = after["length bar"].wide
    assert before["length bar"].wide == pytest.approx(long / 2)
    assert after["added bar"].wide == pytest.approx(long * 3 / 4)
    assert "turned bar" not in before
    assert after["turned bar"].wide == pytest.approx(long / 2)
    assert after["turned number"].text == "−0.50"
    assert before["token 9 bar"].wide == pytest.approx(long / 4)
    assert before["token 9 bar"].y > after["token 9 bar"].y  # it has moved up
    assert (after["token 3 bar"].wide, after["token 3 number"].text) == (0, "NaN")
    assert len(after["token 3 name"].text) == 14


def test_bars_of_nan_and_infinity_have_no_length() -> None:
    lost = Stop("a", np.nan, np.inf, np.nan, [], [])
    (only,) = frames.way_through([lost]).frames
    result = marks(only)
    assert [result[f"{key} bar"].wide for key in ("added", "length", "turned")] == [0, 0, 0]
    assert result["length number"].text == "∞"
