"""A saved session is read as it was written, and anything else is refused in one sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpt2viz
from gpt2viz import settings
from gpt2viz.run.session import Session, open_session, read_session, run_of, session_of
from tests.bundled import bundled_model
from tests.llama_checkpoints import write_llama

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,39}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=50)


@given(TEXTS, st.dictionaries(NAMES, TEXTS, max_size=5))
def test_saved_session_is_read_back(page: str, parameters: dict[str, str]) -> None:
    session = Session(page, parameters, "ab" * 32)
    assert read_session(session.to_json().encode()) == session


def test_session_records_its_version() -> None:
    assert json.loads(Session("Attention", {}).to_json())["version"] == gpt2viz.__version__


def test_invalid_sessions_are_refused_in_one_sentence(subtests: pytest.Subtests) -> None:
    cases: list[tuple[bytes, str]] = [
        (b"", "isn't JSON"),
        (b"\xff\xfe{}", "isn't JSON"),
        (b"[" * 100_000, "isn't JSON"),
        (b"[1, 2]", "not a session that gpt2viz saved"),
        (b'{"page": "Attention"}', "not a session that gpt2viz saved"),
        (b'{"gpt2viz_session": 2}', "newer gpt2viz"),
        (b'{"gpt2viz_session": 1}', "damaged"),
        (b'{"gpt2viz_session": 1, "page": 3, "parameters": {}}', "damaged"),
        (b'{"gpt2viz_session": 1, "page": "A", "parameters": {"layer": 1}}', "damaged"),
        (b'{"gpt2viz_session": 1, "page": "A", "parameters": {"a&b": "1"}}', "damaged"),
        (b'{"gpt2viz_session": 1, "page": "A", "parameters": {"t": "\\ud800"}}', "damaged"),
        (b" " * 1_000_001, "too large"),
    ]
    for content, message in cases:
        with (
            subtests.test(content=content, told=message),
            pytest.raises(gpt2viz.ExportError, match=message),
        ):
            read_session(content)


def session(trace: gpt2viz.Trace) -> Session:
    return session_of(trace.key, trace.text, trace.weight_files)


def test_run_with_edits_opens_on_what_if() -> None:
    model = bundled_model()
    edits = gpt2viz.parse_edits("off:1.3,window:2")
    trace = gpt2viz.trace(model, "A crane ate fish", edits=edits)
    result = session(trace)
    assert (result.page, result.parameters["edits"]) == ("What if", "off:1.3,window:2")
    assert run_of(result).key == run_of(result, model).key == trace.key
    elsewhere = replace(result, page="Attention")  # a page without edits
    assert run_of(elsewhere).edits == ()


def test_runs_without_a_faithful_session_are_refused(tmp_path: Path) -> None:
    model = bundled_model()
    ids = [model.tokenizer.encode(letter)[0] for letter in "fish"]  # "fish" is fewer tokens
    assert len(model.tokenizer.encode("fish")) < 4
    with pytest.raises(gpt2viz.ExportError, match="tokens that its text isn't cut into has no"):
        session(gpt2viz.trace(model, ids))
    patched = gpt2viz.trace(
        model,
        "A crane ate fish",
        edits=gpt2viz.parse_edits("patch:residual_in:1:2"),
        patch_from="A crane ate corn",
    )
    with pytest.raises(gpt2viz.ExportError, match=r"with patches, .* has no session: save the run"):
        session(patched)
    other = Session("Attention", {"text": "A", "model": "stories"}, "ab" * 32)
    with pytest.raises(gpt2viz.ExportError, match="stories here has other weights"):
        run_of(other)
    with pytest.raises(gpt2viz.ExportError, match=r"^no\.json: can't be read \(No such file"):
        open_session(tmp_path / "no.json")
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(gpt2viz.ExportError, match=r"^x\.json: This file is JSON, but not a"):
        open_session(tmp_path / "x.json")


def test_session_records_a_missing_bos_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_llama(tmp_path / "first")
    config = json.dumps({"add_bos_token": True})
    (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")
    monkeypatch.setenv(settings.MODELS_VARIABLE, str(folder))
    model = gpt2viz.load_model("first")
    for bos, saved in ((None, None), (True, None), (False, "false")):
        trace = gpt2viz.trace(model, model.tokenizer.encode("A crane", bos=bos))
        assert session(trace).parameters.get("bos") == saved
        assert run_of(session(trace)).key == trace.key
