"""What a reason says: sentences made of its numbers, and the names of parts in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpt2viz.analysis.explanation import Side
from gpt2viz.labels import signed

if TYPE_CHECKING:
    from gpt2viz.analysis.reasons import Reason


def sentences(case: Reason, labels: Sequence[str]) -> list[str]:
    """All that a reason says; ``labels`` (T,) are the tokens as they shall be written."""
    row, mean = case.row, 1 / len(case.row.keys)
    asks, answers = (f"{n} {labels[n]}" for n in (row.query, case.key))
    where = (
        f"Layer {row.layer}, head {row.head}, from {asks} to {answers}: weight {case.weight:.2f}"
    )
    if len(row.keys) == 1:
        return [f"{where}. The query sees no other key, so the weight is 1 whatever the score."]
    said = [
        f"{where}; if all keys were alike it would be {mean:.2f}.",
        f"The raw score is {_signed(case.raised + case.lowered)} from the row's mean: pairs of "
        f"parts that raise it add {_signed(case.raised)}, pairs that lower it "
        f"{_signed(case.lowered)}.",
    ]
    if not case.pairs:
        return said
    verb = "raises" if case.above else "lowers"
    shares = ", ".join(f"{_percent(pair.share)} is {pair}" for pair in case.pairs)
    said.append(f"Of what {verb} it, {shares}.")
    said += _reads(case, labels)
    said.append(
        "Without the first of these pairs, LayerNorm's scale held, the weight would be "
        f"{case.pairs[0].without:.2f}."
    )
    if case.rule is not None:
        rule, share = case.rule
        author = rule.source.partition(",")[0]
        said.append(f"{rule.says} {_percent(share)} {rule.measured} ({rule.name}: {author}).")
    return said


def _reads(case: Reason, labels: Sequence[str]) -> list[str]:
    """What the heads among the leading pairs had read, a sentence a side."""
    row, said = case.row, []
    asked = [(pair.query_part, pair.query_read) for pair in case.pairs]
    answered = [(pair.key_part, pair.key_read) for pair in case.pairs]
    for side, place, reads in (("query", row.query, asked), ("key", case.key, answered)):
        parts = [
            f"{part} had read {read.token} {labels[read.token]}{_apart(place - read.token)} "
            f"(weight {read.weight:.2f})"
            for part, read in dict.fromkeys(reads)
            if read is not None
        ]
        if parts:
            said.append(f"At the {side}, {' and '.join(parts)}.")
    return said


def _apart(back: int) -> str:
    """How far a token stands before a place, in words."""
    if back == 0:
        return ", the token there"
    tokens = "one token" if abs(back) == 1 else f"{abs(back)} tokens"
    return f", {tokens} {'back' if back > 0 else 'ahead'}"


def _signed(number: float) -> str:
    return signed(number, "+.2f")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def spoken(part: str, side: Side) -> str:
    """A part as it is said: "the key's token", "head 0.0 at the key", "layer 0's MLP …"."""
    kind, _, number = part.partition(" ")
    if not number:
        return f"the {side}'s {part}"
    if kind == "head":
        return f"{part} at the {side}"
    name = "MLP" if kind == "mlp" else "attention bias"
    return f"layer {number}'s {name} at the {side}"
