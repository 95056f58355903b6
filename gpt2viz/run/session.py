"""A session in a small file: the page and all choices on it, to be opened again as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from gpt2viz import __version__
from gpt2viz.errors import CheckpointError, ExportError, TextError
from gpt2viz.files import ordinary, reading
from gpt2viz.model import model_registry
from gpt2viz.model.checkpoint import Model, load_model
from gpt2viz.model.config import END_OF_TEXT
from gpt2viz.model.fingerprint import WeightFiles
from gpt2viz.model.tokenizer import Tokenizer, load_tokenizer
from gpt2viz.model.vocabulary import HALF
from gpt2viz.plugins import THIS_PROGRAM
from gpt2viz.run.edits import parse_edits
from gpt2viz.run.key import RunKey
from gpt2viz.run.trace import Trace
from gpt2viz.run.tracer import trace

#: Marks a JSON file as a session, and gives the version of its format.
FORM = 1
#: Bytes of the largest session that is read.
LARGEST = 1_000_000

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


@dataclass(frozen=True)
class Session:
    """One view of the app.

    ``page`` is the page's name in the menu, ``parameters`` are those of its address, with text and
    model always among them. ``sha256`` is the checksum of the model's weights, or "".
    """

    page: str
    parameters: Mapping[str, str]
    sha256: str = ""
    version: str = __version__

    def to_json(self) -> str:
        """The file's content."""
        return json.dumps({"gpt2viz_session": FORM, **asdict(self)}, ensure_ascii=False, indent=1)

    def is_of(self, weights: WeightFiles | None) -> bool:
        """True if it was saved with these weights, as far as both checksums are known."""
        here = weights.sha256 if weights else ""
        return not self.sha256 or here in ("", self.sha256)


def read_session(content: bytes) -> Session:
    """A session from a file's content.

    Raises ``ExportError`` with one sentence for anything but a session: too large, not JSON,
    another form, or values that no address has. Only the app can check whether the page and the
    model exist, and whether a value fits.
    """
    if len(content) > LARGEST:
        raise ExportError(f"This file is too large for a session (over {LARGEST:,} bytes).")
    try:
        session = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ExportError("This file isn't a session: it isn't JSON.") from None
    if not isinstance(session, dict) or "gpt2viz_session" not in session:
        raise ExportError("This file is JSON, but not a session that gpt2viz saved.")
    if session["gpt2viz_session"] != FORM:
        raise ExportError("This session was saved by a newer gpt2viz. Update to open it.")
    texts = {key: session.get(key, "") for key in ("page", "sha256", "version")}
    parameters = session.get("parameters")
    if (
        not isinstance(parameters, dict)
        or not all(isinstance(text, str) for text in texts.values())
        or not all(_fits(name, value) for name, value in parameters.items())
    ):
        raise ExportError("This session is damaged: its values can't be read.")
    return Session(parameters=parameters, **texts)


def open_session(path: str | Path) -> Session:
    """A session from its file. Raises ``ExportError``, which names the file."""
    path = Path(path)
    with reading(path.name, "can't be read", ExportError), ordinary(path).open("rb") as file:
        content = file.read(LARGEST + 1)
    try:
        return read_session(content)
    except ExportError as error:
        raise ExportError(f"{path.name}: {error}") from None


def session_of(key: RunKey, text: str, weights: WeightFiles | None) -> Session:
    """The session that shows a run in the app: on Attention, or with its edits on What if.

    ``key``, ``text`` and ``weights`` are a trace's. Raises ``ExportError`` if the app would show
    another run, or none: for patches, which need a second text, for means over your own texts, for
    edits that only this program has, and for ids that the text isn't cut into.
    """
    if key.patch_from or key.mean_over:
        raise ExportError(f"A run with patches, or means over texts of its own, {_NO_SESSION}")
    if any(edit.by == THIS_PROGRAM for edit in key.edits):
        raise ExportError(f"A run with edits of this program alone {_NO_SESSION}")
    part = _cut(key, text)
    if part is None:
        raise ExportError(f"A run of tokens that its text isn't cut into {_NO_SESSION}")
    text, bos = part
    parameters = {"text": text, "model": key.model, "causal": str(key.causal).lower()}
    parameters |= {} if bos is None else {"bos": str(bos).lower()}
    parameters |= {"edits": ",".join(map(str, key.edits))} if key.edits else {}
    sha256 = weights.sha256 if weights else ""
    return Session("What if" if key.edits else "Attention", parameters, sha256)


_NO_SESSION = "has no session: save the run itself, with gpt2viz.export.save_trace."


def _cut(key: RunKey, text: str) -> tuple[str, bool | None] | None:
    """The text that the model cuts into the run's tokens, and ``bos`` as ``encode`` takes it."""
    rest = text.removeprefix(END_OF_TEXT.decode())
    try:
        tokenizer = load_tokenizer(model_registry.find(key.model)[1])
    except CheckpointError:  # no model of that name is here, so the text is all that is known
        return (text, None) if rest == text else (rest, True)
    ids = list(key.token_ids)
    own, bos = tokenizer.text_of(ids), tokenizer.own_slice(ids).start > 0
    ways = (text, None), (own, None), (own, bos)
    return next((way for way in ways if _ids(tokenizer, *way) == ids), None)


def _ids(tokenizer: Tokenizer, text: str, bos: bool | None) -> list[int]:
    with suppress(TextError):
        return tokenizer.encode(text, bos=bos)
    return []


def run_of(session: Session, model: Model | None = None) -> Trace:
    """Run the text of a session, with its edits if its page is What if.

    ``model`` is by default the one with its model's name here. Raises what ``load_model`` and
    ``trace`` raise, and ``ExportError`` for weights other than the session's.
    """
    parameters = session.parameters
    if model is None:
        model = load_model(parameters["model"]) if "model" in parameters else load_model()
    if not session.is_of(model.weight_files):
        raise ExportError(f"The model {model.name} here has other weights than this session's.")
    bos = {"true": True, "false": False}.get(parameters.get("bos", ""))
    ids = model.tokenizer.encode(parameters.get("text", ""), bos=bos)
    edits = parse_edits(parameters.get("edits", "")) if session.page == "What if" else ()
    return trace(model, ids, parameters.get("causal") != "false", edits=edits)


def _fits(name: str, value: object) -> bool:
    return isinstance(value, str) and bool(_NAME.fullmatch(name)) and not HALF.search(value)
