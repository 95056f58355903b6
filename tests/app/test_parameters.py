"""Each name in the address is declared once, read where that says, and told of in the docs."""

from __future__ import annotations

import ast
import re

import pytest

from gpt2viz.app import pages, parameters
from gpt2viz.app.parameter import Parameter
from tests.app.pages import ROOT, open_page
from tests.app.test_behaviour import said
from tests.docs.address import PAGE, table

APP = sorted((ROOT / "gpt2viz/app").rglob("*.py"))


def test_each_name_is_of_one_parameter() -> None:
    assert len(parameters.NAMED) == len(parameters.PARAMETERS) > 90
    for parameter in parameters.PARAMETERS:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,39}", parameter.name)  # as a session has it
        assert parameter.on
        assert set(parameter.on) <= {*pages.PAGES, pages.ADDED}
        assert getattr(parameters, parameter.name.upper().replace("ENDOFTEXT", "END_OF_TEXT"))


def test_each_is_read_somewhere() -> None:
    elsewhere = "\n".join(path.read_text("utf-8") for path in APP if path.stem != "parameters")
    spelled = set(re.findall(r"\b[A-Z][A-Z0-9_]*\b", elsewhere))
    constants = {name for name, value in vars(parameters).items() if isinstance(value, Parameter)}
    assert len(constants) == len(parameters.PARAMETERS)
    assert constants <= spelled


def test_nobody_else_spells_a_name_of_the_address() -> None:
    """All else asks ``app/address.py``, which takes no strings; links carry all that is there."""
    using = {
        str(path.relative_to(ROOT / "gpt2viz/app"))
        for path in APP
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "query_params"
    }
    assert using == {"address.py", "frame/tour.py", "views/moved.py"}


def test_the_docs_have_every_parameter() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert table() in written, "python -m tests.docs.address writes it anew"


def test_an_example_that_is_not_there_is_told() -> None:
    at = open_page("textbook", example="junk")
    assert "example: junk can't be shown here" in said(at)
    assert "example" not in at.query_params


@pytest.mark.parametrize("name", ["way", "Layer"])
def test_a_test_may_not_ask_for_what_is_not_declared(name: str) -> None:
    with pytest.raises(AssertionError):
        open_page("attention", **{name: "1"})
