"""Edits of a run: pick one, list them, undo them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from gpt2viz import (
    Edit,
    EditError,
    GPT2VizError,
    Model,
    ModelConfig,
    PatchError,
    TextError,
    labels,
    parse_edits,
)
from gpt2viz.analysis.scores import Scores
from gpt2viz.app import address, output, parameters, prose, run_cache
from gpt2viz.app.clicks import Cell, choose_no_head
from gpt2viz.app.frame import controls, page, sentence
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View, Window
from gpt2viz.app.views import two_runs
from gpt2viz.app.views.two_runs import Sides
from gpt2viz.errors import PluginError
from gpt2viz.pictures.panel import Panel
from gpt2viz.run.edit_kinds import ADDED_KINDS, PATCH_TARGETS, STREAMS, all_kinds, target_label
from gpt2viz.run.edits import (
    LARGEST_FACTOR,
    check,
    describe,
    needs_means,
    nonlinear_edits,
    patches,
)
from gpt2viz.run.key import RunKey
from gpt2viz.run.paired_texts import check_as_long

#: Most edits of one run. Each is listed on the page, and the model reruns with every one added.
MOST = 64

_REFUSED, _PRESET = "_edit_refused", "_edit_preset"


class _Limits(NamedTuple):
    """The limits that edits are checked against, which is all that a callback keeps of a run."""

    config: ModelConfig
    n_tokens: int
    causal: bool
    explicit: bool


def _limits(view: View) -> _Limits:
    run = view.trace
    return _Limits(view.model.config, view.n_tokens, run.causal, run.explicit)


def _edits() -> tuple[Edit, ...]:
    """Return the edits in the address, in the order in which they are applied."""
    examples = (
        f"edits such as off:1.3, scale:1.3:0.5 or window:3, separated by commas, at most {MOST}"
    )
    edits: tuple[Edit, ...] = address.values(parameters.EDITS, _parse, examples)
    return edits


def _parse(raw: str) -> tuple[Edit, ...]:
    if raw.count(",") >= MOST:
        raise ValueError(raw)
    return parse_edits(raw)


def pick() -> tuple[Edit, ...]:
    """Pick whether the edits in the address are applied, on a page that makes none.

    Edits after which a score can't be decomposed are never applied.
    """
    edits = _edits()
    if not edits:
        return ()
    decomposable = not nonlinear_edits(edits)
    on: bool = st.toggle(
        "With the edits",
        disabled=not decomposable,
        help=prose.tip(
            "Applies the edits of What if here too. Off: the unedited model."
            if decomposable
            else "A score can't be taken apart in a run with a patch from another text or an edit "
            "of a package's own. Undo that edit on What if."
        ),
        **address.switch(parameters.EDITED, movable=decomposable),
    )
    return edits if on else ()


def heads_off() -> tuple[Edit, ...]:
    """Return the address's edits that switch a head off, as the map of heads makes them."""
    return tuple(edit for edit in _edits() if edit.kind == "off" and edit.head is not None)


def switch_head(layer: int, head: int) -> None:
    """Switch a head off, or on again. For callbacks."""
    edit, before = Edit("off", layer=layer, head=head), address.get(parameters.EDITS)
    others = tuple(other for other in before if other != edit)
    address.put(parameters.EDITS, others if edit in before else (*before, edit)[:MOST])


def switch_all_on() -> None:
    """Switch on all heads that are off. For callbacks."""
    off = heads_off()
    address.put(parameters.EDITS, tuple(e for e in address.get(parameters.EDITS) if e not in off))


def apply(view: View, edits: tuple[Edit, ...]) -> View:
    """Return the view of the run with these edits; if they are impossible, stop the page."""
    if not edits:
        return view
    _stop_where_impossible(view, edits, ())
    changed = run_cache.run(replace(view.trace.key, edits=edits))
    output.run("The changed run", changed)
    return replace(view, trace=changed)


def describe_edits(view: View) -> None:
    """Describe the edits of the run that is shown, if any."""
    if edits := view.trace.edits:
        names = [*map(labels.bidi_isolate, view.labels)]
        listed = " · ".join(literal(describe(edit, names)) for edit in edits)
        prose.caption(f"**Edited run**: {listed}.")
        note_means(view, edits)


def opening(view: View) -> controls.Opening:
    """Return the head whose weights the edits change most, else ``controls.opening_head``."""

    def most_changed(layer: int | None, head: int | None) -> tuple[int, int]:
        change = _change(view.trace.key, _edits())
        if change is not None:
            layers, heads = np.indices(change.shape)
            matches = (layers == layer) | (layer is None), (heads == head) | (head is None)
            best = np.where(matches[0] & matches[1], change, 0).argmax()
            if change.flat[best] > 0:
                return int(layers.flat[best]), int(heads.flat[best])
        return controls.opening_head(view)(layer, head)

    return most_changed


def _change(key: RunKey, edits: tuple[Edit, ...]) -> Scores | None:
    """Return the largest change of a weight in each head by the edits: (n_layer, n_head).

    None without edits, if they are impossible, and for a text whose weights aren't all kept.
    """
    if not edits:
        return None
    with suppress(GPT2VizError):  # the page says why
        second = _second_ids(run_cache.load(key.model)) if patches(edits) else ()
        edited = replace(key, edits=edits, patch_from=second)
        if all(run_cache.run(run).explicit for run in (key, edited)):
            return two_runs.compare(key, edited, tuple((n, n) for n in range(len(key.token_ids))))
    return None


def both_runs(view: View, choices: DeltaGenerator) -> Sides:
    """Pick edits in ``choices``; return the runs without and with them, or stop the page."""
    edits = _edits()
    with choices:
        second = _pick(view, edits)
        _list(view, edits)
    if why := st.session_state.pop(_REFUSED, None):  # the last edit was not added
        st.warning(why, icon=":material/block:")
    prose.plugin_errors(*ADDED_KINDS.errors)
    _stop_where_impossible(view, edits, second)
    changed = run_cache.run(replace(view.trace.key, edits=edits, patch_from=second))
    return two_runs.sides_of_text(("Baseline", "Changed"), view, replace(view, trace=changed))


def _pick(view: View, edits: tuple[Edit, ...]) -> tuple[int, ...]:
    """Draw the widgets that add an edit; an edit of a head defaults to the chosen head.

    Returns the tokens of the second text, if patches among ``edits`` read it.
    """
    address.text(parameters.TEXT2, "", one_line=False)  # read before its box is drawn
    _preset_head(*controls.layer_and_head(view, opening(view)))
    kinds = all_kinds()
    kind: str = st.selectbox(
        "What to change",
        kinds,
        format_func=lambda kind: kinds[kind].title,
        key="edit_kind",
        label_visibility="collapsed",
        width=250,
    )
    values: dict[str, Any] = {}
    for name in kinds[kind].fields:
        if name != "head" or values.get("stage") not in STREAMS:
            values[name] = _field(view, name)
    patched = bool(patches(edits))
    patching, meaning = kinds[kind].takes == "second text", kinds[kind].meaning
    second = _second_text(view) if patched or patching else ()
    st.button(
        "Add",
        icon=":material/add:",
        type="primary",
        help=prose.tip(literal(meaning) if kind in ADDED_KINDS else meaning),
        on_click=_add_and_show,
        args=(
            _limits(view),
            Edit(kind, **values),
            _patch_problem(view, second) if patching else "",
            view.trace.key,
        ),
        key="add_edit",
    )
    return second if patched else ()


def _second_text(view: View) -> tuple[int, ...]:
    """Draw the box of the text that patches copy from; return its tokens, () if it is empty."""
    sentence.box(
        parameters.TEXT2,
        "",
        "Second sentence",
        placeholder="Second sentence, with as many tokens",
        label_visibility="collapsed",
        width=240,
    )
    try:
        return _second_ids(view.model)
    except TextError as error:
        page.stop(f"Second sentence: {literal(str(error))}")


def _second_ids(model: Model) -> tuple[int, ...]:
    """Return the tokens of the second text, () if it is empty. Raises ``TextError``."""
    text = address.get(parameters.TEXT2)
    return sentence.encode(model, text) if text else ()


def _patch_problem(view: View, second: tuple[int, ...]) -> str:
    """Return the reason why the second text can't be patched from, or ""."""
    if not second:
        return "Type a second sentence first: the patch comes from its run."
    try:
        check_as_long(view.model, view.trace.token_ids, second)
    except PatchError as error:
        return literal(str(error))
    return ""


def _preset_head(layer: int, head: int) -> None:
    """Set the head in an edit's fields when another is chosen, or when they are first drawn."""
    chosen = {"edit_layer": layer, "edit_head": head}
    if [*map(address.get_chosen, (parameters.LAYER, parameters.HEAD))] == [None, None]:
        chosen = st.session_state.get(_PRESET, chosen)  # edits decide which head opens
    if st.session_state.get(_PRESET) != chosen:
        st.session_state.update(chosen)
        st.session_state[_PRESET] = chosen
    for name, value in chosen.items():
        st.session_state.setdefault(name, value)


def _field(view: View, name: str) -> Any:
    """Draw the widget of an edit's field, and return its value."""
    key, limit, longest = f"edit_{name}", float(LARGEST_FACTOR), max(view.n_tokens, 2)
    if name == "factor":
        return st.number_input("Times", -limit, limit, 2.0, step=0.5, key=key, width=205)
    if name == "width":
        return st.number_input("Tokens it sees", 1, longest, 2, key=key, width=215)
    if name == "first":
        return st.number_input("And the first", 0, longest, 0, key=key, width=200) or None

    config, tokens, names = view.model.config, range(view.n_tokens), view.labels

    def token(n: int | None) -> str:  # Streamlit keeps it for the session: no view in it
        return "every token" if n is None else f"{n} {names[n]}"

    selects: dict[str, tuple[str, Iterable[Any], Callable[[Any], str], int]] = {
        "layer": ("in layer", range(config.n_layer), str, 90),
        "head": ("head", range(config.n_head), str, 90),
        "query": ("This token (query)", tokens, token, 165),
        "key": ("may not see (key)", tokens, token, 165),
        "position": ("At", [None, *tokens], token, 130),
        "stage": ("Piece", PATCH_TARGETS, target_label, 190),
    }
    title, options, label, width = selects[name]
    last = view.n_tokens - 1 if name == "query" else 0
    return st.selectbox(title, options, index=last, format_func=label, key=key, width=width)


def _add_and_show(limits: _Limits, edit: Edit, why_not: str, key: RunKey) -> None:
    """Append an edit; if it changes other heads but not the chosen one, choose no head."""
    _add(limits, edit, why_not)
    change = _change(key, address.get(parameters.EDITS))
    at = address.get(parameters.LAYER), address.get(parameters.HEAD)
    if change is not None and change[at] == 0 and change.any():
        choose_no_head()


def _add(limits: _Limits, edit: Edit, why_not: str = "") -> None:
    """Append an edit, unless the run would be impossible or ``why_not`` gives a reason."""
    before = address.get(parameters.EDITS)
    if edit in before and not edit.declared.repeats:
        return
    after = (*before, edit)
    try:
        if len(after) > MOST:
            raise EditError(labels.sentence("edits.most", most=MOST))
        if why_not:
            raise EditError(why_not)
        check(after, *limits)
    except EditError as error:
        st.session_state[_REFUSED] = f"Not added. {error}"
        return
    address.put(parameters.EDITS, after)


def hide(view: View, part: Window, drawn: Panel) -> Callable[[Cell], None]:
    """Return a callback that hides the key of a clicked cell of ``drawn``, or shows it again."""
    limits, rows, columns = _limits(view), drawn.rows, drawn.columns

    def clicked(cell: Cell) -> None:
        if part.exact:
            _toggle(limits, rows.position(cell.row), columns.position(cell.column))

    return clicked


def _toggle(limits: _Limits, query: int, key: int) -> None:
    edit = Edit("forbid", query=query, key=key)
    before = address.get(parameters.EDITS)
    if edit in before:
        address.put(parameters.EDITS, tuple(other for other in before if other != edit))
    elif limits.causal and key > query:
        st.session_state[_REFUSED] = labels.sentence("edits.hidden", query=query, key=key)
    else:
        _add(limits, edit)


def _undo(n: int, edit: Edit) -> None:
    """Remove the ``n``-th edit, from 0, if it is still ``edit``."""
    before = address.get(parameters.EDITS)
    if before[n : n + 1] == (edit,):
        address.put(parameters.EDITS, before[:n] + before[n + 1 :])


def _list(view: View, edits: tuple[Edit, ...]) -> None:
    """Draw the edits in one row, the latest first, each a button that undoes it."""
    if not edits:
        prose.caption("**No edit yet**: both runs are the same.", width="content")
        return
    names = [*map(labels.bidi_isolate, view.labels)]
    with st.container(key="edit_list", horizontal=True):
        for back, (n, edit) in enumerate(reversed([*enumerate(edits)])):
            st.button(
                literal(describe(edit, names)),
                key=f"undo_{back}",  # the next button gets the keyboard's focus
                icon=":material/close:",
                help=labels.sentence("edits.undo", edit=literal(str(edit))),
                on_click=_undo,
                args=(n, edit),
            )
    if len(edits) > 1:
        st.button(
            f"Undo all {len(edits)}",
            key="undo_all",
            icon=":material/undo:",
            type="tertiary",
            on_click=address.put,
            args=(parameters.EDITS, ()),
        )


def note_means(view: View, edits: tuple[Edit, ...]) -> None:
    """Show the reference text if a head is replaced by its mean."""
    if needs_means(edits):
        run = run_cache.reference(view.model.name)
        prose.caption(labels.sentence("edits.means", n=len(run.token_ids), text=literal(run.text)))


def _stop_where_impossible(view: View, edits: tuple[Edit, ...], second: tuple[int, ...]) -> None:
    """Stop the page with one message if an edit doesn't fit this model and sentence.

    ``second`` are the tokens that patches copy from.
    """
    why = _patch_problem(view, second) if patches(edits) else ""
    try:
        check(edits, *_limits(view))
        if needs_means(edits):
            run_cache.reference(view.model.name)
        if any(edit.own for edit in edits):  # only running it shows whether it is possible
            run_cache.run(replace(view.trace.key, edits=edits, patch_from=second))
    except (EditError, PluginError) as error:
        why = labels.sentence("edits.impossible", error=error)
    if why:
        st.warning(why, icon=":material/block:")
        st.stop()
