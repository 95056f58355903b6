"""A second text for a first, with one word or token changed, and answers that differ in both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from gpt2viz.analysis.sampling import divergence, sampling_distribution, surprise
from gpt2viz.analysis.words import word_starts
from gpt2viz.arrays import largest
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.tokenizer import Tokenizer
from gpt2viz.run.forward import RUN_LOCK, run_from
from gpt2viz.run.trace import Trace

#: The tokens that are tried, from the last one back, and the candidates to replace each.
_POSITIONS, _GUESSES = 16, 20
#: Tokens that are run at once while they are tried.
_AT_ONCE = 1024


def change_one_token(model: Model, run: Trace) -> list[int] | None:
    """The ids of a run's text with one token changed, such that the prediction changes most.

    At each of the last positions but the very last, the token that the model found most probable
    there replaces the text's own; of these texts it is the one whose prediction at the end is
    furthest from the run's own, by the Kullback-Leibler divergence. None if no such text is cut
    into the same number of tokens.
    """
    ids, T = list(run.token_ids), len(run.token_ids)
    own = model.tokenizer.own_slice(ids)
    positions = range(max(own.start, own.stop - 1 - _POSITIONS), max(own.stop - 1, 1))
    texts = [text for t in reversed(positions) if (text := _variant(model, run, t)) is not None]
    tried = texts[: max(1, _AT_ONCE // T)]
    if not tried:
        return None
    network = model.network
    with RUN_LOCK, torch.inference_mode():
        read = torch.tensor(tried, device=network.device)  # (B, T)
        streams = network.embed(read, torch.arange(T, device=network.device))  # (B, T, C)
    logits = run_from(
        model, {0: streams}, [], causal=run.causal, explicit=False, hidden=run.forbidden
    )
    before = run.logits_at(-1)
    return tried[int(np.argmax([divergence(changed, before) for changed in logits]))]


def _variant(model: Model, run: Trace, t: int) -> list[int] | None:
    """The ids with another token at ``t``: the most probable whose text gives these ids again."""
    ids = list(run.token_ids)
    for new in largest(run.logits_at(max(t - 1, 0)), _GUESSES).tolist():
        text = [*ids[:t], new, *ids[t + 1 :]]
        if new != ids[t] and _exact_text(text, model.tokenizer) is not None:
            return text
    return None


def telling_answers(clean: Trace, corrupted: Trace) -> tuple[int, int]:
    """A right and a wrong next token, by their ids: each run's own most probable one.

    If those are the same, the token whose probability falls most from the clean run to the
    corrupted one, and the one whose probability rises most.
    """
    before, after = (sampling_distribution(run.logits_at(-1)) for run in (clean, corrupted))
    right, wrong = int(before.argmax()), int(after.argmax())
    if right != wrong:
        return right, wrong
    change = after - before
    return int(change.argmin()), int(change.argmax())


#: A word's replacement is chosen among so many of the likeliest tokens at its position.
LIKELIEST = 30
#: The number of words to change, each in a text of its own.
MOST = 4


class Change(NamedTuple):
    """The token at a ``position`` becomes ``token``, an id; ``text`` is the changed sentence."""

    position: int
    token: int
    text: str


def one_word_changes(trace: Trace, tokenizer: Tokenizer) -> tuple[Change, ...]:
    """Up to ``MOST`` changes of one word each, in order; empty if no word can be changed.

    It changes words of one token, first those that surprised the model most. A word becomes the one
    of the ``LIKELIEST`` tokens that the model expects there whose row of the unembedding, which in
    GPT-2 is the embedding too, is most similar (cosine similarity). The model expects nothing in
    place of the first token: it may become any of the vocabulary. The last token and the first are
    changed only if nothing else can be: later tokens should see the change, and earlier ones
    lead up to it.

    The replacement is alike in the space before it, in being letters or digits, and in capitals,
    and the changed text is cut into the same tokens except for that one.
    """
    own = range(len(trace.token_ids))[tokenizer.own_slice(trace.token_ids)]
    words = [position for position in _words(trace) if position in own]
    bits = np.nan_to_num(surprise(trace), nan=-1)
    ends = 0, len(trace.token_ids) - 1
    result: list[Change] = []
    for position in sorted(words, key=lambda n: (n in ends, -bits[n], n)):
        if result and position in ends:
            break
        change = next(_changes(trace, tokenizer, position), None)
        result += [] if change is None else [change]
        if len(result) == MOST:
            break
    return tuple(sorted(result))


def _words(trace: Trace) -> list[int]:
    """The positions of words of one token."""
    starts = word_starts(trace.token_bytes, trace.tokens_are_words)
    following = *starts[1:], len(trace.token_ids)
    alone = (n for n, end in zip(starts, following, strict=True) if end == n + 1)
    return [n for n in alone if _kind(trace.token_bytes[n])]


def _changes(trace: Trace, tokenizer: Tokenizer, position: int) -> Iterator[Change]:
    """Yield changes of the word at a position, the nearest first."""
    old, rows = trace.token_ids[position], trace.unembedding
    kind, word = _kind(trace.token_bytes[position]), trace.token_bytes[position].decode().casefold()
    likeliest = np.arange(len(rows))
    if position:
        logits = trace.logits_at(position - 1)
        likeliest = largest(logits, LIKELIEST)
    lengths = np.linalg.norm(rows[likeliest], axis=1)
    near = rows[likeliest] @ rows[old] / np.where(lengths > 0, lengths, np.inf)
    if not np.isfinite(near).all() or (position and not np.isfinite(logits).all()):
        return
    for token in likeliest[np.argsort(-near, kind="stable")]:
        new = tokenizer.token_bytes(int(token))
        if _kind(new) == kind and new.decode().casefold() != word:
            ids = [*trace.token_ids[:position], int(token), *trace.token_ids[position + 1 :]]
            if (text := _exact_text(ids, tokenizer)) is not None:
                yield Change(position, int(token), text)


def _kind(token: bytes) -> tuple[bool, ...]:
    """The form that a word keeps: a space before it, letters or digits, capitals; () for others."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return ()
    word = text.removeprefix(" ")
    if not word.isalnum():
        return ()
    return text != word, word.isalpha(), word.istitle(), word.isupper()


def _exact_text(ids: list[int], tokenizer: Tokenizer) -> str | None:
    """The text that is cut into exactly these tokens, except those put around it."""
    own = ids[tokenizer.own_slice(ids)]
    text = tokenizer.text_of(ids)
    return text if tokenizer.encode_part(text) == own else None
