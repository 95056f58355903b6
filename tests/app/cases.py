"""One test for many cases, all of which are tried."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest


def each(
    names: str | tuple[str, ...], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Have a test try every case, and tell all that fail: it is collected once.

    Written as ``pytest.mark.parametrize``, but the cases share the fixtures; what a case patches
    with ``monkeypatch`` is undone after it.
    """
    every = list(cases)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        parameters = inspect.signature(test).parameters
        several = isinstance(names, tuple)
        given = names if isinstance(names, tuple) else (names,)

        @wraps(test)
        def tried(subtests: Any, **fixtures: Any) -> None:
            shared = fixtures | ({"subtests": subtests} if "subtests" in parameters else {})
            for case in every:
                with subtests.test(ascii(case)[:100]), pytest.MonkeyPatch.context() as patch:
                    own = {"monkeypatch": patch} if "monkeypatch" in parameters else {}
                    values = case if several else (case,)
                    test(**dict(zip(given, values, strict=True)), **shared | own)

        requests = [p for name, p in parameters.items() if name not in (*given, "subtests")]
        fixture = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        tried.__signature__ = inspect.Signature([fixture, *requests])  # type: ignore[attr-defined]
        return tried

    return decorate
