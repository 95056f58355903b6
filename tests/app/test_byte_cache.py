"""The cache of runs holds no more bytes than it may, and never makes one value twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier, Event

import pytest

import gpt2viz
from gpt2viz.app.byte_cache import Kept


@dataclass
class Thing:
    nbytes: int


def made(kept: Kept[Thing], key: str, nbytes: int = 10) -> bool:
    """Ask for a key; whether it had to be made."""
    calls: list[str] = []

    def make() -> Thing:
        calls.append(key)
        return Thing(nbytes)

    kept.get(key, make)
    return bool(calls)


def test_the_least_recently_used_goes_first() -> None:
    kept: Kept[Thing] = Kept(30)
    assert [made(kept, key) for key in "abcabc"] == [True] * 3 + [False] * 3
    assert not made(kept, "a")
    assert made(kept, "d")  # four times 10 is too much, and b was used longest ago
    assert [made(kept, key) for key in "acd"] == [False] * 3
    assert made(kept, "b")


def test_bytes_count_and_not_entries() -> None:
    kept: Kept[Thing] = Kept(30)
    for key in "abc":
        made(kept, key)
    made(kept, "large", 25)
    assert [made(kept, key) for key in ("large", "c", "b", "a")] == [False, True, True, True]


def test_one_that_is_larger_than_the_budget_stays_until_another_comes() -> None:
    kept: Kept[Thing] = Kept(30)
    assert made(kept, "huge", 1000)
    assert not made(kept, "huge")
    assert made(kept, "a")
    assert made(kept, "huge", 1000)


def test_room_is_made_from_the_oldest() -> None:
    kept: Kept[Thing] = Kept(30)
    for key in "abc":
        made(kept, key)
    assert kept.make_room(0) == []
    assert kept.make_room(11) == ["a", "b"]
    assert not made(kept, "c")
    assert kept.make_room(31) == ["c"]
    assert made(kept, "c")


def test_the_one_that_is_worth_most_is_found_and_of_equals_the_last_used() -> None:
    kept: Kept[Thing] = Kept(100)
    values = {key: kept.get(key, lambda: Thing(1)) for key in ("aab", "b", "aaa", "")}
    assert kept.best(lambda key: key.count("a")) is values["aaa"]
    made(kept, "b")
    made(kept, "aab")
    assert kept.best(lambda key: key.count("b")) is values["aab"]
    assert kept.best(lambda key: key.count("c")) is None
    assert Kept[Thing](1).best(len) is None


def test_what_is_unwanted_is_forgotten() -> None:
    kept: Kept[Thing] = Kept(30)
    for key in "abc":
        made(kept, key)
    kept.forget(lambda key: key in "ac")
    assert [made(kept, key) for key in "bac"] == [False, True, True]


def test_what_grew_is_counted_anew() -> None:
    kept: Kept[Thing] = Kept(30)
    grows = kept.get("grows", lambda: Thing(10))
    made(kept, "a")
    grows.nbytes = 25
    assert kept.get("grows", lambda: Thing(0)) is grows
    assert made(kept, "a")


def test_many_who_ask_at_a_time_get_the_same_one() -> None:
    kept: Kept[Thing] = Kept(30)
    together, calls = Barrier(4), []

    def make() -> Thing:
        calls.append(1)
        Event().wait(0.1)  # long enough for the others to ask
        return Thing(10)

    def ask(_n: int) -> Thing:
        together.wait()
        return kept.get("a", make)

    with ThreadPoolExecutor(4) as pool:
        assert len({id(thing) for thing in pool.map(ask, range(4))}) == 1
    assert len(calls) == 1


def test_one_that_is_being_made_holds_up_no_other() -> None:
    kept: Kept[Thing] = Kept(30)
    started, go_on = Event(), Event()

    def slow() -> Thing:
        started.set()
        assert go_on.wait(30)
        return Thing(10)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(kept.get, "slow", slow)
        assert started.wait(30)
        assert made(kept, "other")
        go_on.set()
        assert waiting.result().nbytes == 10


def test_what_could_not_be_made_is_tried_again() -> None:
    kept: Kept[Thing] = Kept(30)
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    assert made(kept, "a")


def test_a_trace_knows_its_bytes(tiny: gpt2viz.Model) -> None:
    T, C, hs, nh, V, n_layer = 5, 24, 6, 4, 420, 3
    trace = gpt2viz.trace(tiny, [1, 2, 3, 4, 5], explicit=False)
    captured = trace.nbytes
    stream, heads = T * C * 4, nh * T * hs * 4
    assert captured >= n_layer * (4 * heads + 2 * stream)
    assert trace.stage("weights", 1).nbytes == nh * T * T * 4
    derived = trace.nbytes
    assert derived >= captured + nh * T * T * 4
    assert trace.logits.nbytes == T * V * 4
    assert trace.nbytes == derived + T * V * 4
