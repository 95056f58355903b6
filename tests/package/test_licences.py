"""The licences of all that the app needs are known and listed."""

from __future__ import annotations

import re
from email.message import Message
from types import SimpleNamespace

import pytest

from tests.package import licences


def test_every_dependency_is_listed_with_its_licence() -> None:
    """The table may have more packages, for other systems or versions."""
    text = (licences.ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| \[(.+?)\].* \| (.+) \|$", text, re.MULTILINE))
    result = licences.table()
    assert {name: listed.get(name) for name in result} == result, "make licences"
    assert {"torch", "streamlit", "numpy", "websockets"} <= result.keys()


def test_licences_are_read_from_metadata_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    message = Message()
    monkeypatch.setattr(licences, "distribution", lambda _: SimpleNamespace(metadata=message))
    cases: list[tuple[dict[str, str], str | None]] = [
        ({"License-Expression": "Apache-2.0 OR BSD-2-Clause"}, "Apache-2.0, BSD-like"),
        ({"Classifier": "License :: OSI Approved :: MIT License", "License": "see file"}, "MIT"),
        ({"License": "MIT License\n\nCopyright (c) GPL-haters"}, "MIT"),
        ({"License-Expression": "AGPL-3.0-only"}, None),
        ({"License-Expression": "MIT AND LGPL-2.1-only"}, None),
        ({}, None),
    ]
    for fields, family in cases:
        message = Message()
        for name, value in fields.items():
            message[name] = value
        if family is None:
            with pytest.raises(LookupError, match="x: "):
                licences.families("x")
        else:
            assert licences.families("x") == family
