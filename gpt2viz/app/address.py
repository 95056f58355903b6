"""The address holds what is on screen: reload it or send it, and the same view comes back.

Every widget that chooses what is seen is made with one of the functions below, which return the
widget's ``key``, what can be chosen, and the callback that writes its value to the address:

    layer = st.segmented_control("Layer", **address.choice(parameters.LAYER, range(4)))

A value in the address that the page can't show is replaced by the default, with a note; all the
notes stand together, where ``begin`` was called, or before what runs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from gpt2viz.labels import sentence, shorten

#: Characters of one parameter. A longer text works, but is left out of the address.
LONGEST_TEXT = 2000
#: Characters of all parameters together, with their names: every link of a page repeats them.
LONGEST_ADDRESS = 6000

_NOTES = "_address_notes"
_OF_FRAME = "_address_notes_of_frame"
_DROPPED = "_address_dropped"
_SAVED = "_address_saved"
#: What is called as a parameter gets another value, before it has it: see ``when_changed``.
_CHANGES: dict[str, Callable[[Any, Any], None]] = {}
_SWITCH = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


class _Last(NamedTuple):
    """The last value of a parameter, with the address text that it was read from or written to.

    A value that nobody has ``chosen`` is a default, which another sentence or model may change.
    ``of`` are the values of the parameters that it depends on, None until the page has drawn it.
    """

    raw: str | None
    value: Any
    chosen: bool
    of: tuple[Any, ...] | None = None


def _memory() -> dict[str, _Last]:
    # Apart from the widgets' own state, which Streamlit drops when another page is opened.
    memory: dict[str, _Last] = st.session_state.setdefault("_address", {})
    return memory


def trim() -> None:
    """Drop from the address what is too long. For the frame, before anything reads it."""
    texts: dict[str, str] = {}
    dropped, room = [], LONGEST_ADDRESS
    for name, raw in st.query_params.to_dict().items():
        if len(raw) <= LONGEST_TEXT and len(name + raw) <= room:
            texts[name] = raw
            room -= len(name + raw)
        else:
            dropped.append(shorten(name, 40))
    if dropped:  # all at once: the browser is told the whole address each time
        st.query_params.from_dict(texts)
    st.session_state[_DROPPED] = dropped


def begin() -> None:
    """Make room here for all notes of the page. For the frame, which opens every page."""
    show_notes_in(st.empty())
    st.session_state[_OF_FRAME] = st.session_state[_NOTES]
    if dropped := st.session_state[_DROPPED]:
        names = literal(", ".join(dropped[:5])) + (" …" if len(dropped) > 5 else "")
        most = {"each": LONGEST_TEXT, "all": LONGEST_ADDRESS}
        _note(sentence("frame.dropped", names=names, **most))


def show_notes_in(slot: DeltaGenerator) -> None:
    """Show the notes of all that is drawn from now on in ``slot``, together."""
    st.session_state[_NOTES] = (slot, [])


def _note(note: str) -> None:
    slot, notes = st.session_state[_NOTES]
    notes.append(note)
    slot.warning("\n\n".join(notes), icon=":material/link_off:")


def frame_has_notes() -> bool:
    """True if the frame has a note that a value can't be shown."""
    _slot, notes = st.session_state[_OF_FRAME]
    return bool(notes)


def text(parameter: Text, default: str | None = None, one_line: bool = True) -> dict[str, Any]:
    """Arguments for a text widget, which shows no line breaks where it has ``one_line``."""
    fits = is_one_line if one_line else lambda _value: True
    return _bind(parameter, default, str, fits, "one line")


def is_one_line(text: str) -> bool:
    """True if a box of one line shows a text as it is: a browser drops line breaks there."""
    return not {"\n", "\r"} & set(text)


def switch(parameter: Switch, default: bool | None = None, movable: bool = True) -> dict[str, Any]:
    """Arguments for a toggle: ``true`` or ``false`` in the address.

    One that isn't ``movable`` stays at its ``default``, given or declared, whatever the address
    asks for.
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
    """Arguments for a widget that picks one of ``options``, which are written as a mapping says.

    The address may spell a fraction another way: 0 for 0.0.

    Without a ``default``, declared or given, or where it is ``optional``, it can be empty. A
    default that takes time to find is given as a function, which is called where the address says
    nothing.
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
    """Arguments for a box that a whole number ``within`` a range is typed into."""
    bound = choice(parameter, within, default)
    del bound["options"]
    return {"min_value": within[0], "max_value": within[-1], **bound}


def several(
    parameter: MultiParam, options: Sequence[int], default: Sequence[int] = ()
) -> dict[str, Any]:
    """Arguments for a widget that picks several numbers: ``0,2`` in the address.

    Where there is a ``default``, it comes back once the last number is taken away.
    """

    def fits(values: list[int]) -> bool:
        enough = bool(values) or not default  # an empty list has no text in the address
        return enough and set(values) <= set(options) and len(set(values)) == len(values)

    expected = f"numbers from {_spell(options)}, separated by commas"
    bound = _bind(parameter, list(default), _parse_numbers, fits, expected)
    return {"options": options, **bound}


def several_values(
    parameter: ListParam, parse: Callable[[str], tuple[Any, ...]], expected: str
) -> tuple[Any, ...]:
    """A list that no one widget holds, none by default; changed with ``put``.

    ``parse`` raises ``ValueError`` for what it can't read, and ``expected`` says what it can.
    """
    _bind(parameter, (), parse, lambda _value: True, expected)
    values: tuple[Any, ...] = get(parameter)
    return values


def get(parameter: Parameter) -> Any:
    """The value of a parameter that the page has read already."""
    # Not the widget's own, which the visitor's next page may drop while this one is still drawn.
    return _memory()[parameter.name].value


def peek(parameter: Parameter) -> Any:
    """The value of a parameter as it was last read or chosen; None where it was neither."""
    last = _memory().get(parameter.name)
    return None if last is None else last.value


def chosen(parameter: Parameter) -> Any:
    """The value of a parameter that the page has read already; None where it is a default."""
    return None if is_default(parameter) else get(parameter)


def is_default(parameter: Parameter) -> bool:
    """True if nobody has chosen the value of a parameter, which the page has read already."""
    return not _memory()[parameter.name].chosen


def raw(parameter: Parameter) -> str | None:
    """The text of a parameter in the address, read by the page or not; None where it has none."""
    text: str | None = st.query_params.get(parameter.name)
    return text


def put(parameter: Parameter, value: Any) -> None:
    """Choose a value from code, as if the person had used the widget. For callbacks only."""
    st.session_state[parameter.name] = value
    _write(parameter.name)


def when_changed(parameter: Parameter, call: Callable[[Any, Any], None]) -> None:
    """Have ``call`` answer each choice of another value: with that of before, and the new one."""
    _CHANGES[parameter.name] = call


def set_raw(parameter: Parameter, text: str) -> None:
    """Write a parameter's text into the address, "" for none, for the next page. For callbacks.

    Unlike ``put`` it needs no value, which only the page can read.
    """
    if text:
        st.query_params[parameter.name] = text
    else:
        st.query_params.pop(parameter.name, None)
        _memory().pop(parameter.name, None)


def parameters(changes: Mapping[Parameter, Any] | None = None) -> dict[str, str]:
    """The address's parameters, some of them changed: for links to another page.

    An empty list has no text there.
    """
    texts = st.query_params.to_dict()
    for parameter, value in (changes or {}).items():
        if value in ([], ()):
            texts.pop(parameter.name, None)
        else:
            texts[parameter.name] = _format(value)
    return texts


def has_room(changes: Mapping[Parameter, Any]) -> bool:
    """True if the address has room for all of these beside what it holds already."""
    return _fits(parameters(changes))


def unwritten() -> dict[str, str]:
    """The text, by name, of each choice that the address has no room for: a long sentence, say."""
    return {
        name: _format(last.value)
        for name, last in _memory().items()
        if last.chosen and last.raw is None and last.value not in (None, [], ())
    }


def restored(saved: Mapping[str, str]) -> dict[str, str]:
    """Forget all that was chosen, for what was saved: the parameters to open a page with.

    What is too long for the address is handed over beside it.
    """
    _memory().clear()
    long = {name: raw for name, raw in saved.items() if len(raw) > LONGEST_TEXT}
    st.session_state[_SAVED] = long
    return {name: raw for name, raw in saved.items() if name not in long}


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
        if read:  # else it is a choice of before, which a new sentence or model has no place for
            shown = raw if raw is not None and len(raw) <= 40 else "the value"
            words = sentence("frame.impossible", name=name, value=literal(shown), expected=expected)
            _note(words)
        st.query_params.pop(name, None)
        raw, value, chosen = None, fallback(), False
    _memory()[name] = _Last(raw, value, chosen, of)
    st.session_state[name] = value  # each time: a widget of another page doesn't hand its value on
    return {"key": name, "on_change": _write, "args": (name,)}


def _write(name: str) -> None:
    if isinstance(NAMED.get(name), Text):
        _drop_unread(name)
    value, before = st.session_state[name], _memory().get(name)
    if name in _CHANGES and before is not None and before.value != value:
        _CHANGES[name](before.value, value)
    raw = _format(value)
    others = {other: text for other, text in st.query_params.to_dict().items() if other != name}
    if value is None or value in ([], ()) or not _fits({**others, name: raw}):
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = raw
    _memory()[name] = _Last(st.query_params.get(name), value, True)


def _drop_unread(name: str) -> None:
    """Drop what was chosen of a text that changes, where no page has read it: such as a part that
    the browser cut out just before. What a page has read, ``_bind`` drops."""
    for other, raw in st.query_params.to_dict().items():
        parameter, last = NAMED.get(other), _memory().get(other)
        unread = last is None or last.raw != raw
        if parameter and unread and name in (source.name for source in parameter.of):
            del st.query_params[other]


def _fits(texts: Mapping[str, str]) -> bool:
    """True if all of these fit into one address."""
    length = sum(len(part) for pair in texts.items() for part in pair)
    longest = max(map(len, texts.values()), default=0)
    return longest <= LONGEST_TEXT and length <= LONGEST_ADDRESS


def _format(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def _parse_numbers(raw: str) -> list[int]:
    return [int(n) for n in raw.split(",")]


def _parse_switch(raw: str) -> bool:
    return _SWITCH[raw.lower()]


def _spell(options: Iterable[Any]) -> str:
    listed = list(options)
    if isinstance(options, range) and len(listed) > 1:
        return f"{listed[0]} to {listed[-1]}"
    return " or ".join(map(str, listed))
