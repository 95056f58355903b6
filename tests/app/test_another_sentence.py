"""What stays chosen as another sentence is typed: the head on screen, and equal tokens."""

from __future__ import annotations

from typing import Any

from tests.app.pages import chips, open_page
from tests.app.test_end_of_text import tokens

TEXT = "The dog bit the man because it was hungry."
OTHER_END = "The dog bit the cat because it was hungry."
OTHER = "A crane ate fish, and it was very good at that"
#: What is chosen of tokens of ``TEXT``: of its first four, which ``OTHER_END`` has too, and others.
CHOSEN = {"query": "6", "key": "2", "keys": "0,3,5", "edits": "forbid:3:1,forbid:6:1,off:0.0"}
CHOSEN |= {"match": "1:3,3:7", "cells": "3:1,6:2", "zoom": "2,5,1,4", "patch": "patch:q:1.4:6"}
STAYS = {"key": "2", "keys": "0,3", "edits": "forbid:3:1,off:0.0", "match": "1:3", "cells": "3:1"}


def typed(at: Any, text: str) -> Any:
    return at.text_input(key="text").set_value(text).run()


def of_tokens(at: Any) -> dict[str, str]:
    """What the address says of tokens."""
    return {name: value for name, value in at.query_params.items() if name in CHOSEN}


def test_chosen_tokens_stay_where_the_text_up_to_them_is_the_same() -> None:
    at = typed(open_page("attention", text=TEXT, **CHOSEN), OTHER_END)
    assert tokens(at)[:4] == tokens(open_page("attention", text=TEXT))[:4]
    assert of_tokens(at) == STAYS
    assert chips(at)["chosen"] is None
    at = typed(open_page("attention", text=TEXT, **CHOSEN, endoftext="true"), OTHER)
    assert of_tokens(at) == {"keys": "0", "edits": "off:0.0"}, "the first token is the same"
    at = typed(open_page("attention", text=TEXT, query="3"), TEXT + " It ate")
    assert chips(at)["chosen"] == 3
    assert not at.warning
    second = open_page("side_by_side?differs=text", text=TEXT, text2=OTHER_END, match="1:3")
    second.text_input(key="text2").set_value(OTHER).run()
    assert "match" not in second.query_params


def test_the_head_on_screen_stays() -> None:
    at = open_page("attention", text=TEXT)
    shown = at.session_state["layer"], at.session_state["head"]
    assert "layer" not in at.query_params, "nobody has chosen it"
    for act in (
        lambda: at.toggle(key="endoftext").set_value(True).run(),
        lambda: typed(at, OTHER),
        lambda: at.toggle(key="endoftext").set_value(False).run(),
        lambda: typed(at, "Hi"),
    ):
        act()
        assert (at.session_state["layer"], at.session_state["head"]) == shown
        assert (at.query_params["layer"], at.query_params["head"]) == tuple(map(str, shown))
    at = typed(open_page("find", text=TEXT), OTHER)
    assert "head" not in at.query_params, "on Find no head is large"
