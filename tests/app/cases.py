"""One test for many cases, all of which are run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest


def each(
    names: str | tuple[str, ...], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Collect a test once, run it for every case, and report all failures.

    Used like ``pytest.mark.parametrize``, but the cases share the fixtures; a case's patches by
    ``monkeypatch`` are undone after it.
    """
    all_cases = list(cases)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        parameters = inspect.signature(test).parameters
        several = isinstance(names, tuple)
        arguments = names if isinstance(names, tuple) else (names,)

        @wraps(test)
        def run_cases(subtests: Any, **fixtures: Any) -> None:
            shared = fixtures | ({"subtests": subtests} if "subtests" in parameters else {})
            for case in all_cases:
                with subtests.test(ascii(case)[:100]), pytest.MonkeyPatch.context() as patch:
                    own = {"monkeypatch": patch} if "monkeypatch" in parameters else {}
                    values = case if several else (case,)
                    test(**dict(zip(arguments, values, strict=True)), **shared | own)

        requests = [p for name, p in parameters.items() if name not in (*arguments, "subtests")]
        fixture = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run_cases.__signature__ = inspect.Signature([fixture, *requests])  # type: ignore[attr-defined]
        return run_cases

    return decorate
