"""A missing package is named with the extra that installs it; other import errors stay."""

from __future__ import annotations

from importlib import import_module

import pytest

from gpt2viz.errors import GPT2VizError, MissingExtraError
from gpt2viz.extras import require


def test_a_missing_module_gives_one_sentence() -> None:
    text = r"^A chart needs no_such_module: pip install 'gpt2viz\[app\]'$"
    with pytest.raises(MissingExtraError, match=text) as result, require("A chart", "app"):
        import_module("no_such_module.part")
    assert isinstance(result.value, ImportError)
    assert isinstance(result.value, GPT2VizError)
    assert result.value.__cause__ is None


def test_other_import_errors_are_not_changed() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"gpt2viz\.no_such_room"), require("It", "app"):
        import_module("gpt2viz.no_such_room")
    with pytest.raises(ImportError, match="cannot import name") as result, require("It", "app"):
        from gpt2viz.labels import no_such_name  # type: ignore[attr-defined]  # noqa: F401
    assert not isinstance(result.value, MissingExtraError)
