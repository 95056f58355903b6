"""Keep the page's state in its address: reload it or share it, and the same view comes back.

Every widget that changes what is shown takes its arguments from one of these functions: its
``key``, its options, and the callback that writes its value to the address:

    layer = st.segmented_control("Layer", **address.choice(parameters.LAYER, range(4)))

A value in the address that the page can't show is replaced by the default, with a note. The notes
are shown together where ``begin`` was called, or in the slot of the last ``show_notes_in``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz.app.literal import literal
from gpt2viz.app.parameters import (
    NAMED,
    ListParam,
    MultiParam,
    Parameter,
    SelectParam,
    Switch,
    Text,
)
from gpt2viz.labels import first_few, sentence, shorten

#: Most characters of one parameter. A longer text works, but the address leaves it out.
LONGEST_TEXT = 2000
#: Most characters of all parameters and their names: every link of a page repeats them.
LONGEST_ADDRESS = 6000

_NOTES = "_address_notes"
_OF_FRAME = "_address_notes_of_frame"
_DROPPED = "_address_dropped"
_SAVED = "_address_saved"
#: The texts of an unfinished step. Not in the session: a newer message may end a callback at any
#: access to the session, and a draft that was left over would swallow all later changes.
_DRAFT: ContextVar[dict[str, str] | None] = ContextVar("draft", default=None)
#: Callbacks that run before a parameter changes, by name: see ``on_change``.
_CHANGES: dict[str, Callable[[Any, Any], None]] = {}
_BOOLEANS = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


class _Last(NamedTuple):
    """The last value of a parameter, and its text ``raw`` in the address, None if it has none.

    A value that isn't ``chosen`` is a default, which another sentence or model may change.
    ``of`` are the values of the parameters that it depends on, None until the page has drawn it.
    """

    raw: str | None
    value: Any
    chosen: bool
    of: tuple[Any, ...] | None = None


def _memory() -> dict[str, _Last]:
    # Not the widgets' own state, which Streamlit drops when another page opens.
    memory: dict[str, _Last] = st.session_state.setdefault("_address", {})
    return memory


def trim() -> None:
    """Drop parameters that are too long. The frame calls it before anything reads the address."""
    texts, too_long = _split(st.query_params.to_dict())
    if too_long:  # all at once: each change sends the whole address to the browser
        st.query_params.from_dict(texts)
    st.session_state[_DROPPED] = [shorten(name, 40) for name in too_long]


def begin() -> None:
    """Reserve the slot for the page's notes. The frame calls it as it opens a page."""
    show_notes_in(st.empty())
    st.session_state[_OF_FRAME] = st.session_state[_NOTES]
    if dropped := st.session_state[_DROPPED]:
        names = literal(first_few(dropped, 5))
        most = {"each": LONGEST_TEXT, "all": LONGEST_ADDRESS}
        _note(sentence("frame.dropped", names=names, **most))


def show_notes_in(slot: DeltaGenerator) -> None:
    """Show all further notes together in ``slot``."""
    st.session_state[_NOTES] = (slot, [])


def _note(note: str) -> None:
    slot, notes = st.session_state[_NOTES]
    notes.append(note)
    slot.warning("\n\n".join(notes), icon=":material/link_off:")


def frame_has_notes() -> bool:
    """Return whether the frame has a note about a value that can't be shown."""
    _slot, notes = st.session_state[_OF_FRAME]
    return bool(notes)


def text(parameter: Text, default: str | None = None, one_line: bool = True) -> dict[str, Any]:
    """Return the arguments of a text widget; a ``one_line`` one takes no line breaks."""
    fits = is_one_line if one_line else lambda _value: True
    return _bind(parameter, default, str, fits, "one line")


def is_one_line(text: str) -> bool:
    """Return whether a one-line box shows the text unchanged: browsers drop line breaks there."""
    return not {"\n", "\r"} & set(text)


def switch(parameter: Switch, default: bool | None = None, movable: bool = True) -> dict[str, Any]:
    """Return the arguments of a toggle: ``true`` or ``false`` in the address.

    If it isn't ``movable``, it stays at its ``default``, given or declared, whatever the address
    says.
    """
    default = parameter.default if default is None else default

    def fits(value: bool) -> bool:
        return movable or value == default

    expected = "true or false" if movable else _format(default)
    return _bind(parameter, default, _parse_switch, fits, expected)


def choice(
    parameter: SelectParam,
    options: Sequence[Any] | Mapping[Any, str],
    default: Any = None,
    optional: bool = False,
) -> dict[str, Any]:
    """Return the arguments of a widget that picks one of ``options``; a mapping gives their labels.

    The address may spell a fraction another way: 0 for 0.0.

    The widget can be empty if it is ``optional`` or has no ``default``, declared or given. A slow
    default is given as a function, which is called only if the address has no value.
    """
    named = {"format_func": options.__getitem__} if isinstance(options, Mapping) else {}
    options = list(options) if isinstance(options, Mapping) else options
    by_text = {str(option): option for option in options}
    fractions = {option: option for option in options if isinstance(option, float)}
    optional = optional or (default is None and parameter.default is None)
    allowed = [*options, None] if optional else options

    def parse_option(raw: str) -> Any:
        return by_text[raw] if raw in by_text else fractions[float(raw)]

    bound = _bind(parameter, default, parse_option, allowed.__contains__, _spell(options))
    return {"options": options, **named, **bound}


def number(parameter: SelectParam, within: range, default: int | None = None) -> dict[str, Any]:
    """Return the arguments of a number box for a whole number ``within`` a range."""
    bound = choice(parameter, within, default)
    del bound["options"]
    return {"min_value": within[0], "max_value": within[-1], **bound}


def choices(
    parameter: MultiParam, options: Sequence[int], default: Sequence[int] = ()
) -> dict[str, Any]:
    """Return the arguments of a widget that picks several numbers: ``0,2`` in the address.

    A ``default`` comes back once the last number is removed.
    """

    def fits(values: list[int]) -> bool:
        enough = bool(values) or not default  # an empty list has no text in the address
        return enough and set(values) <= set(options) and len(set(values)) == len(values)

    expected = f"numbers from {_spell(options)}, separated by commas"
    bound = _bind(parameter, list(default), _parse_numbers, fits, expected)
    return {"options": options, **bound}


def values(
    parameter: ListParam, parse: Callable[[str], tuple[Any, ...]], expected: str
) -> tuple[Any, ...]:
    """Return a list that no single widget holds, () by default; ``put`` changes it.

    ``parse`` raises ``ValueError`` for text that it can't read; ``expected`` describes valid text.
    """
    values: tuple[Any, ...] = read(_bind(parameter, (), parse, lambda _value: True, expected))
    return values


def read(bound: Mapping[str, Any]) -> Any:
    """Return the value of a widget with these arguments, which isn't drawn: a picture sets it."""
    return _memory()[bound["key"]].value


def get(parameter: Parameter) -> Any:
    """Return the value of a parameter that the page has read already."""
    # Not the widget's own value, which the next page may drop while this one is being drawn.
    return _memory()[parameter.name].value


def peek(parameter: Parameter) -> Any:
    """Return the value of a parameter as it was last read or chosen, else None."""
    last = _memory().get(parameter.name)
    return None if last is None else last.value


def get_chosen(parameter: Parameter) -> Any:
    """Return the value of a parameter that the page has read; None if it is a default."""
    last = _memory()[parameter.name]
    return last.value if last.chosen else None


def raw(parameter: Parameter) -> str | None:
    """Return a parameter's text in the address, whether the page has read it or not, or None."""
    return _texts().get(parameter.name)


def put(parameter: Parameter, value: Any) -> None:
    """Set a value as if the user had used the widget. For callbacks only."""
    st.session_state[parameter.name] = value
    _write(parameter.name)


def put_all(values: Mapping[Parameter, Any]) -> None:
    """Set several values, in this order, as one step of the browser's Back. For callbacks only."""
    with one_step():
        for parameter, value in values.items():
            put(parameter, value)


@contextmanager
def one_step() -> Iterator[dict[str, str]]:
    """Write all changes that are made inside to the address at once. Yields its texts by name."""
    outer = _DRAFT.get()
    texts = st.query_params.to_dict() if outer is None else outer
    token = _DRAFT.set(texts)
    try:
        yield texts
    finally:
        _DRAFT.reset(token)
        if outer is None and texts != st.query_params.to_dict():
            st.query_params.from_dict(texts)


def _texts() -> dict[str, str]:
    """Return the texts of the address by name, those of an unfinished step included."""
    texts = _DRAFT.get()
    return st.query_params.to_dict() if texts is None else texts


def on_change(parameter: Parameter, call: Callable[[Any, Any], None]) -> None:
    """Call ``call(old, new)`` whenever the user chooses another value."""
    _CHANGES[parameter.name] = call


def set_raw(parameter: Parameter, text: str) -> None:
    """Write a parameter's text into the address for the next page; "" drops it. For callbacks.

    Unlike ``put`` it needs no value, which only the page can parse.
    """
    with one_step() as texts:
        if text:
            texts[parameter.name] = text
        else:
            texts.pop(parameter.name, None)
            _memory().pop(parameter.name, None)


def parameters(changes: Mapping[Parameter, Any] | None = None) -> dict[str, str]:
    """Return the address's parameters with ``changes``, for links to another page.

    An empty list is left out.
    """
    texts = dict(_texts())
    for parameter, value in (changes or {}).items():
        if value in ([], ()):
            texts.pop(parameter.name, None)
        else:
            texts[parameter.name] = _format(value)
    return texts


def has_room(changes: Mapping[Parameter, Any]) -> bool:
    """Return whether the address has room for these changes."""
    return not _split(parameters(changes))[1]


def long_choices() -> dict[str, str]:
    """Return, by name, the text of each choice that is too long for the address."""
    return {
        name: _format(last.value)
        for name, last in _memory().items()
        if last.chosen and last.raw is None and last.value not in (None, [], ())
    }


def restore(saved: Mapping[str, str]) -> dict[str, str]:
    """Replace all choices by saved ones; return the parameters to open a page with.

    Texts that the address has no room for are passed on in the session.
    """
    _memory().clear()
    texts, st.session_state[_SAVED] = _split(saved)
    return texts


def _bind(
    parameter: Parameter,
    default: Any,
    parse: Callable[[str], Any],
    fits: Callable[[Any], bool],
    expected: str,
) -> dict[str, Any]:
    name = parameter.name
    default = parameter.default if default is None else default
    fallback = default if callable(default) else lambda: default
    raw = st.query_params.get(name)
    last = _memory().get(name)
    saved = st.session_state.get(_SAVED, {}).pop(name, None)
    read = last is None or last.raw != raw
    chosen = raw is not None or saved is not None
    of = tuple(st.session_state.get(other.name) for other in parameter.of)
    try:
        if last is not None and not read and last.chosen:
            if last.of not in (None, of):
                raise ValueError(last.value)
            value, chosen = last.value, True
        else:
            text = raw if saved is None else saved
            value = fallback() if text is None else parse(text)
        if not fits(value):
            raise ValueError(value)
    except (ValueError, KeyError):
        if read:  # else it is an earlier choice, which doesn't fit the new sentence or model
            shown = raw if raw is not None and len(raw) <= 40 else "the value"
            words = sentence("frame.impossible", name=name, value=literal(shown), expected=expected)
            _note(words)
        st.query_params.pop(name, None)
        raw, value, chosen = None, fallback(), False
    _memory()[name] = _Last(raw, value, chosen, of)
    st.session_state[name] = value  # each time: a widget's value doesn't follow to another page
    return {"key": name, "on_change": _write, "args": (name,)}


def _write(name: str) -> None:
    with one_step() as texts:
        if isinstance(NAMED.get(name), Text):
            _drop_unread(name, texts)
        value, before = st.session_state[name], _memory().get(name)
        if name in _CHANGES and before is not None and before.value != value:
            _CHANGES[name](before.value, value)
        raw = _format(value)
        others = {other: text for other, text in texts.items() if other != name}
        if value is None or value in ([], ()) or _split({**others, name: raw})[1]:
            texts.pop(name, None)
        else:
            texts[name] = raw
        _memory()[name] = _Last(texts.get(name), value, True)


def _drop_unread(name: str, texts: dict[str, str]) -> None:
    """Drop parameters that depend on a changed text and that no page has read, such as a zoom that
    the browser has just set. ``_bind`` drops those that a page has read."""
    for other, raw in list(texts.items()):
        parameter, last = NAMED.get(other), _memory().get(other)
        unread = last is None or last.raw != raw
        if parameter and unread and name in (source.name for source in parameter.of):
            del texts[other]


def _split(texts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts that one address has room for, taken in order, and the others."""
    short: dict[str, str] = {}
    long, room = {}, LONGEST_ADDRESS
    for name, raw in texts.items():
        if len(raw) <= LONGEST_TEXT and len(name + raw) <= room:
            short[name] = raw
            room -= len(name + raw)
        else:
            long[name] = raw
    return short, long


def _format(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def _parse_numbers(raw: str) -> list[int]:
    return [int(n) for n in raw.split(",")]


def _parse_switch(raw: str) -> bool:
    return _BOOLEANS[raw.lower()]


def _spell(options: Iterable[Any]) -> str:
    listed = list(options)
    if isinstance(options, range) and len(listed) > 1:
        return f"{listed[0]} to {listed[-1]}"
    return " or ".join(map(str, listed))
