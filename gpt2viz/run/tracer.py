"""Run a model once and keep what happened inside."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np

from gpt2viz.arrays import Array, Pairs
from gpt2viz.errors import ArgumentError, ContextError, EditError, PlaceError, TextError
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.devices import to_numpy
from gpt2viz.run.captured import Captured
from gpt2viz.run.derived import Derived
from gpt2viz.run.edits import (
    REFERENCE_TEXT,
    Edit,
    Edits,
    check,
    drop_patches,
    edit_mask,
    needs_means,
    patches,
    read_edits,
)
from gpt2viz.run.forward import run_texts
from gpt2viz.run.hooked import Hook, Hooks, read_hooks
from gpt2viz.run.hooks import Recording, network_graph, shape_table, whole_table
from gpt2viz.run.interventions import Change, changes
from gpt2viz.run.means import MeanReference, Reference, check_reference, describe, fingerprint
from gpt2viz.run.paired_texts import check_as_long
from gpt2viz.run.prefix import Start, start_of
from gpt2viz.run.stages import axis_sizes, masking
from gpt2viz.run.trace import Trace, readable

#: The most tokens in a batch: larger ones are no faster.
TOGETHER = 4096
#: Up to this many bytes of (T, T) matrices are captured; beyond, they are derived on demand.
EXPLICIT_BYTES = 64 * 2**20


def trace(
    model: Model,
    text: str | Sequence[int],
    causal: bool = True,
    *,
    explicit: bool | None = None,
    edits: Edits = (),
    hooks: Hooks = MappingProxyType({}),
    reference: Reference | None = None,
    patch_from: str | Sequence[int] | Trace | None = None,
    reuse: Trace | None = None,
) -> Trace:
    """Run ``model`` on a text, or on a sequence of token ids, and keep every stage.

    A text gets the tokens that the checkpoint's tokenizer adds; pass ``tokenizer.encode(text,
    bos=True)`` to put ``<|endoftext|>`` first. A special token in ``text`` is read as ordinary
    text, with a ``UserWarning``. ``causal=False`` lifts the mask: every token sees every
    other, which never happens in training. ``explicit`` computes scores and weights in the run
    itself (True) or derives them later from its q, k and v (False); by default their size decides.
    ``edits`` change the run, in their order: ``gpt2viz.Edit``, or "off:1.3,window:2"; after them
    ``hooks`` do, your own functions: see ``Hook``. ``reference`` gives the means that replace
    heads: a run of this model or ``mean_reference``, by default ``reference_run(model)``.
    ``patch_from`` is the text, of as many tokens, whose run patches copy from, or that run, made
    with the same mask and edits. ``reuse`` is an earlier run: its stages of the tokens that both
    begin with are reused, not computed again; see ``Trace.reused``.

    Raises ``TextError`` for text without tokens or ids outside the vocabulary, ``ContextError``
    for more tokens than the model has positions, ``EditError`` for an edit or hook that doesn't
    fit, ``StageError`` and ``PlaceError`` for a hook's stage that doesn't exist, ``PluginError`` if
    another package's edit fails, ``PatchError`` for a ``patch_from`` of another length,
    ``ArgumentError`` for runs that can't be combined, and ``TooLargeError`` where a GPU's memory
    is too small. Thread-safe.
    """
    ids = token_ids(model, text)
    named = read_hooks(hooks, model.config.n_layer, network_graph(model.network))
    edits = (*read_edits(edits), *named)
    explicit = _explicit(model, ids, explicit)
    check(edits, model.config, len(ids), causal, explicit)
    reference = _reference(model, edits, reference)
    source = _source(model, ids, causal, edits, hooks, reference, patch_from)
    hidden, edited = edit_mask(edits, len(ids)), list(changes(edits, model, reference, source))
    start = start_of(reuse, model, ids, causal, edits)
    return replace(
        _run(model, ids, causal, explicit, hidden, edited, start),
        text=text if isinstance(text, str) else model.tokenizer.decode(ids),
        edits=edits,
        mean_over=describe(reference, reference_ids(model)) if reference else "",
        patch_from=() if source is None else source.token_ids,
        patch_text="" if source is None else source.text,
    )


def _run(
    model: Model,
    ids: list[int],
    causal: bool,
    explicit: bool,
    hidden: Pairs | None,
    edited: Sequence[tuple[str, Change]],
    start: Start | None,
) -> Trace:
    """Run one text; with ``start``, only the tokens after it."""
    network, rest, past = model.network, ids, None
    if start is not None:
        rest, past = ids[start.n :], start.past(network.device, explicit)
    logits, record = run_texts(network, [rest], causal, explicit, hidden, edited, past)
    shares = to_numpy(logits[:, -1].softmax(dim=-1))
    if start is None:
        made = make_trace(model, ids, causal, explicit, hidden, shares, record)
        changed = any(name == "lm_head" for name, _ in edited)
        return replace(made, last_logits=to_numpy(logits[:, -1])) if changed else made
    captured, sizes = start.merge(record.tensors, len(ids)), axis_sizes(model.config, len(ids))
    return replace(
        make_trace(model, ids, causal, explicit, hidden, shares, record, captured),
        describe=partial(whole_table, record.made, masking(causal, edited=False), sizes),
        reused=start.n,
    )


def trace_many(
    model: Model,
    texts: Iterable[str | Sequence[int]],
    causal: bool = True,
    *,
    explicit: bool | None = None,
    edits: Edits = (),
    reference: Reference | None = None,
) -> list[Trace]:
    """Run ``model`` on many texts, each as ``trace`` does, in less time than one by one.

    Texts of equal length run as a batch, without padding. The traces are independent, in the order
    of ``texts``, with the numbers of ``trace`` to 1e-5. Those of one batch share memory, which is
    freed with the last of them. The arguments are ``trace``'s; patches, which copy from another
    text, are refused with ``EditError``. Raises what ``trace`` raises, before the first run if
    a text or an edit is the cause.
    """
    if isinstance(texts, str):  # otherwise each letter would be run as a text
        raise TextError("Texts are several, in a list: trace_many(model, [text]).")
    given, edits = list(texts), read_edits(edits)
    read = [token_ids(model, text) for text in given]
    if patched := patches(edits):
        raise EditError(f"{patched[0]} takes from another text: use gpt2viz.trace")
    lengths: dict[int, list[int]] = {}
    for n, ids in enumerate(read):
        lengths.setdefault(len(ids), []).append(n)
        check(edits, model.config, len(ids), causal, _explicit(model, ids, explicit))
    reference = _reference(model, edits, reference)
    own = describe(reference, reference_ids(model)) if reference else ""
    edited, traces = list(changes(edits, model, reference)), dict[int, Trace]()
    for length, rows in lengths.items():
        as_asked, hidden = _explicit(model, read[rows[0]], explicit), edit_mask(edits, length)
        for batch in _batches(model, length, rows, as_asked):
            together = [read[n] for n in batch]
            logits, record = run_texts(model.network, together, causal, as_asked, hidden, edited)
            for row, n in enumerate(batch):
                alone, shares = record.of_text(row), logits[row : row + 1, -1].softmax(dim=-1)
                made = make_trace(model, read[n], causal, as_asked, hidden, to_numpy(shares), alone)
                text = given[n]
                text = text if isinstance(text, str) else made.text
                traces[n] = replace(made, text=text, edits=edits, mean_over=own)
    return [traces[n] for n in range(len(given))]


def _explicit(model: Model, ids: Sequence[int], requested: bool | None) -> bool:
    fits = _pair_bytes(model, len(ids)) <= EXPLICIT_BYTES
    return fits if requested is None else requested


def _batches(
    model: Model, length: int, rows: Sequence[int], explicit: bool
) -> Iterator[Sequence[int]]:
    """Split texts of one length into batches whose matrices fit into memory."""
    most = TOGETHER // length
    if explicit:
        most = min(most, EXPLICIT_BYTES // _pair_bytes(model, length))
    step = max(1, most)
    yield from (rows[start : start + step] for start in range(0, len(rows), step))


def make_trace(
    model: Model,
    ids: list[int],
    causal: bool,
    explicit: bool,
    hidden: Pairs | None,
    probabilities: Array,
    record: Recording,
    captured: Captured | None = None,
) -> Trace:
    """The trace of a run; ``captured`` has its stages if it recorded only some of them.

    ``probabilities`` (B, n_vocab) are those of the next token.
    """
    captured = Captured(record.tensors) if captured is None else captured
    token_bytes = tuple(model.tokenizer.token_bytes(i) for i in ids)
    return Trace(
        model_name=model.name,
        config=model.config,
        text=model.tokenizer.decode(ids),
        token_ids=tuple(ids),
        tokens=tuple(map(readable, token_bytes)),
        token_bytes=token_bytes,
        causal=causal,
        explicit=explicit,
        next_token_probabilities=probabilities,
        captured=captured,
        unembedding=model.unembedding,
        derived=Derived(captured, model.config, len(ids), causal, hidden),
        graph=network_graph(model.network),
        describe=partial(shape_table, record.made, masking(causal, hidden is not None)),
        forbidden=hidden,
        weight_files=model.weight_files,
        tokens_are_words=model.tokenizer.tokens_are_words,
        spell=model.tokenizer.token_bytes,
    )


def reference_ids(model: Model) -> tuple[int, ...]:
    """``REFERENCE_TEXT`` in tokens, cut to the model's positions.

    Empty if the model's vocabulary can't spell it.
    """
    try:
        return tuple(model.tokenizer.encode(REFERENCE_TEXT)[: model.config.n_positions])
    except TextError:
        return ()


def reference_run(model: Model) -> Trace:
    """The unedited run of ``reference_ids``.

    Mean ablation takes a head's mean from it. Make it once for many edits. Raises
    ``EditError`` where the model's vocabulary can't spell that text.
    """
    if not (ids := reference_ids(model)):
        raise EditError(
            "A head's mean is taken over an English text, which this model's vocabulary can't "
            "spell. Give texts of its own: reference=gpt2viz.mean_reference(model, texts)."
        )
    return trace(model, ids)


def mean_reference(model: Model, texts: Iterable[str | Sequence[int]]) -> MeanReference:
    """Mean outputs of every head over some texts, position by position, for ``mean`` edits.

    Over texts of one form, such as the same sentence with other names, the mean keeps what depends
    on the position and loses what depends on the text (Wang et al. 2023, section 2.2). The model
    runs unedited, with the mask on. Raises ``TextError`` for no texts, and what ``trace`` raises.
    """
    if isinstance(texts, str):  # otherwise each letter would be run as a text
        raise TextError("Texts are several, in a list: mean_reference(model, [text]).")
    first: Trace | None = None
    config, read = model.config, []
    sums, counts = np.zeros((config.n_layer, config.n_head, 0, config.head_dim)), np.zeros(0)
    for text in texts:
        run = trace(model, text)
        first, T = first or run, len(run.token_ids)
        if (more := T - len(counts)) > 0:
            counts = np.pad(counts, (0, more))
            sums = np.pad(sums, ((0, 0), (0, 0), (0, more), (0, 0)))
        counts[:T] += 1
        read.append(run.key)
        for layer in range(config.n_layer):
            sums[layer, :, :T] += run.stage("head_output", layer)[0]  # (nh, T, hs)
    if first is None:
        raise TextError("There is no text to take means over.")
    means = dict(enumerate((sums / counts[:, None]).astype(np.float32)))
    return MeanReference(means, len(read), first, fingerprint(read))


def _reference(model: Model, edits: Sequence[Edit], given: Reference | None) -> Reference | None:
    """The run or reference that means are taken from; None if no edit takes one."""
    if not needs_means(edits):
        return None
    if given is None:
        return reference_run(model)
    check_reference(given, model)
    return given


def _source(
    model: Model,
    ids: list[int],
    causal: bool,
    edits: tuple[Edit, ...],
    hooks: Hooks,
    reference: Reference | None,
    patch_from: str | Sequence[int] | Trace | None,
) -> Trace | None:
    """The run that patches copy from; None if nothing is patched."""
    patched, others = patches(edits), drop_patches(edits)
    if not patched:
        return None
    if patch_from is None:
        raise EditError(f"{patched[0]} needs a second text: give it as patch_from.")
    if not isinstance(patch_from, Trace):
        second = token_ids(model, patch_from)
        check_as_long(model, ids, second)
        plain = [edit for edit in others if not isinstance(edit, Hook)]
        return trace(model, second, causal, edits=plain, hooks=hooks, reference=reference)
    check_as_long(model, ids, patch_from.token_ids)
    patch_from.check_made_by(model)
    if (patch_from.causal, patch_from.edits) != (causal, others):
        raise ArgumentError("The run to patch from must have the same mask and the other edits.")
    return patch_from


def token_ids(model: Model, text: str | Sequence[int]) -> list[int]:
    """Return the model's input ids for a text, or for token ids.

    Like ``trace``, warns if the text contains the name of a special token, and raises errors.
    """
    if not isinstance(model, Model):
        swapped = "The model comes first, and then the text" if isinstance(text, Model) else ""
        raise ArgumentError(
            f"{swapped or f'A model is needed, not {type(model).__name__}'}: model = "
            "gpt2viz.load_model(), and then gpt2viz.trace(model, text)."
        )
    config = model.config
    if isinstance(text, str) and (typed := model.tokenizer.special_in(text)):
        warnings.warn(
            f"Special tokens in the text are read as ordinary text ({', '.join(typed)}). To read "
            "them as tokens, as transformers does, give model.tokenizer.encode(text, special=True)",
            stacklevel=3,
        )
    ids = model.tokenizer.encode(text) if isinstance(text, str) else _whole_numbers(text)
    if not ids:
        raise TextError("There is no text yet. Type a word or a sentence.")
    if wrong := [i for i in ids if not 0 <= i < config.vocab_size]:
        last = config.vocab_size - 1
        raise TextError(f"Token id {wrong[0]} is outside the vocabulary, 0 to {last}.")
    if len(ids) > config.n_positions:
        raise ContextError(len(ids), config.n_positions)
    return ids


def _whole_numbers(values: Sequence[int]) -> list[int]:
    if isinstance(values, bytes):  # otherwise each byte would count as an id
        raise TextError("A text is a str, not bytes: decode it first.")
    try:
        return [operator.index(value) for value in values]
    except TypeError:
        raise TextError(
            f"Token ids are whole numbers, not {values!r:.80}. A text is a str."
        ) from None


def token_id(model: Model, token: int | str) -> int:
    """The id of a token that is given by its id, or by its text, such as " fish".

    Raises ``TextError`` for a text that isn't one token, and ``PlaceError`` for an id outside the
    vocabulary.
    """
    if isinstance(token, str):
        return model.tokenizer.id_of(token)
    try:
        id = operator.index(token)
    except TypeError:
        raise TextError(f"A token is its id or its text, not {token!r:.80}") from None
    if not 0 <= id < model.config.vocab_size:
        raise PlaceError(f"token id {id} is outside 0 to {model.config.vocab_size - 1}")
    return id


def _pair_bytes(model: Model, n_tokens: int) -> int:
    return 16 * model.config.n_layer * model.config.n_head * n_tokens**2  # 4 stages of float32
