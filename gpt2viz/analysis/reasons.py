"""Why a head attends to one key, in words derived only from computed numbers.

The deviation of a key's score from the row's mean is a sum over pairs of parts, of both signs. So
that cancellation doesn't distort shares, they are of the terms of one sign: for a key above the
mean, of all pairs that raise it; below the mean, of all that lower it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from gpt2viz.analysis.cell import HeadCell
from gpt2viz.analysis.explanation import Part, RowExplanation, Side, explain_row
from gpt2viz.analysis.scores import first_token, weight_on
from gpt2viz.arrays import Array, Numbers, Pairs, largest
from gpt2viz.labels import sentence
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.edits import attention_is_off, head_scale_factors
from gpt2viz.run.trace import Trace, figures, mimebundle

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


#: The least share for a rule to hold, and the least weight for a head to count as having read
#: tokens: as much as everything else together.
HALF = 0.5
#: A rule is named for a key whose weight is this many times that of a row of equal weights.
STANDS_OUT = 1.5
#: A token counts as looked for if at most this share of the vocabulary's other tokens would score
#: as high there: a permutation test (Phipson & Smyth 2010, "Permutation P-values Should Never Be
#: Zero"), which weights that ignore the token pass with this probability.
RARE = 0.01
#: Pairs that are named, and the share of all that a pair must exceed: less is rounding.
LEADING, ROUNDING = 3, 1e-12


@dataclass(frozen=True)
class Read:
    """The position that a head attended to most where it wrote a part, and its weight there."""

    token: int
    weight: float


@dataclass(frozen=True)
class Pair:
    """A part of the query with a part of the key.

    ``value`` is its term of the deviation, ``share`` its share of all terms of that sign;
    ``ablated_weight`` is the key's weight if the pair added nothing to any score of the row.
    ``query_read`` and ``key_read`` say what either part, if it is a head, had attended to.
    """

    query_part: Part
    key_part: Part
    value: float
    share: float
    ablated_weight: float
    query_read: Read | None
    key_read: Read | None

    @property
    def parts(self) -> tuple[Part, Part]:
        """The query's, then the key's."""
        return self.query_part, self.key_part

    def __str__(self) -> str:
        return f"{part_label(self.query_part, 'query')} × {part_label(self.key_part, 'key')}"


class Strongest(NamedTuple):
    """The part of either side whose pairs have the largest share of the prevailing sign."""

    side: Side
    part: Part
    share: float

    def __str__(self) -> str:
        return part_label(self.part, self.side)


@dataclass(frozen=True)
class Rule:
    """A named reason for a key's weight, and when it holds.

    ``measure`` returns a number in [0, 1] that must reach ``HALF``, for a key that stands out by
    ``STANDS_OUT``; 0 if the rule can't hold. ``because`` and ``measured`` name the sentences of
    the reason and of its number. ``looked_for`` marks the tokens (T,) that the head looks for.
    """

    name: str
    because: str
    measured: str
    measure: Callable[[Reason], float]
    source: str
    looked_for: Callable[[Reason], Pairs] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Reason:
    """Why a query gives one key its weight: see ``reason``.

    ``raised`` and ``lowered`` are the sums of the deviation's pairs above and below 0.
    """

    row: RowExplanation
    key: int

    @cached_property
    def weight(self) -> float:
        """The key's attention weight."""
        return float(self.row.weights[self.row.row_of(self.key)])

    @cached_property
    def deviation(self) -> Numbers:
        """The key's score minus the row's mean, by pairs of parts: (n, n), rows for the query's."""
        return self.row.deviation(self.key)

    @property
    def raised(self) -> float:
        """The sum of all pairs that raise the score above the row's mean."""
        return float(self.deviation.clip(min=0).sum())

    @property
    def lowered(self) -> float:
        """The sum of all pairs that lower it, 0 or below."""
        return float(self.deviation.clip(max=0).sum())

    @property
    def above(self) -> bool:
        """True where the score is above the row's mean; shares are then of ``raised``."""
        return self.raised + self.lowered > 0

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The ``LEADING`` pairs of the prevailing sign, largest first; empty if there are none."""
        whole = self.raised if self.above else self.lowered
        same = self.deviation if self.above else -self.deviation
        order = largest(same.ravel(), LEADING)
        cells = zip(*np.unravel_index(order, same.shape), strict=True)
        least = ROUNDING * abs(whole)
        return tuple(self._pair(int(i), int(j), whole) for i, j in cells if same[i, j] > least)

    @cached_property
    def shares(self) -> dict[tuple[Side, Part], float]:
        """Each part's share, in all its pairs, of the prevailing sign; empty if there is none.

        The shares of one side's parts sum to 1.
        """
        sign = 1 if self.above else -1
        same = (sign * self.deviation).clip(min=0)
        if not same.sum() > 0:
            return {}
        sides: tuple[tuple[Side, int], ...] = (("key", 0), ("query", 1))
        return {
            (side, name): float(share)
            for side, axis in sides
            for name, share in zip(self.row.names, same.sum(axis=axis) / same.sum(), strict=True)
        }

    @property
    def strongest(self) -> Strongest | None:
        """The part with the largest of the ``shares``; None if there are none.

        Of equal ones the key's comes first, then the earlier part.
        """
        if not self.shares:
            return None
        side, name = max(self.shares, key=self.shares.__getitem__)
        return Strongest(side, name, self.shares[side, name])

    @cached_property
    def rule(self) -> tuple[Rule, float] | None:
        """The first of ``RULES`` that holds, and its measure."""
        uniform = 1 / len(self.row.keys)
        if not self.above or self.weight < STANDS_OUT * uniform:
            return None
        measured = ((rule, rule.measure(self)) for rule in RULES)
        return next(((rule, share) for rule, share in measured if share >= HALF), None)

    @property
    def copiers(self) -> dict[Side, Part]:
        """The heads that had copied the token that the rule looks for, by the side to which they
        wrote: those of the strongest pair that carries it. Empty if the rule looks for no token.
        """
        if self.rule is None or self.rule[0].looked_for is None:
            return {}
        carry = np.outer(_own_parts(self), self.reads_from("key", self.rule[0].looked_for(self)))
        strongest = np.where(carry, self.deviation, -np.inf).argmax()
        i, j = np.unravel_index(strongest, carry.shape)
        parts: dict[Side, Part] = {"query": self.row.names[i], "key": self.row.names[j]}
        return {side: part for side, part in parts.items() if part.kind == "head"}

    def share(self, query_parts: Pairs, key_parts: Pairs) -> float:
        """The share of ``raised`` that all pairs of some parts (n,) make up together."""
        return float(self.deviation[np.ix_(query_parts, key_parts)].sum()) / self.raised

    def reads_from(self, side: Side, tokens: Pairs) -> Pairs:
        """Mark the parts of query or key that come from some tokens (T,) of the text: (n,).

        The part "token" comes from the token at that position, a head's part from tokens that got
        ``HALF`` of its weight or more.
        """
        position = self.row.query if side == "query" else self.key
        reads = self._weights[side]
        return np.array(
            [
                bool(tokens[position]) if name.kind == "token" else
                name in reads and float(reads[name][tokens].sum()) >= HALF
                for name in self.row.names
            ]
        )  # fmt: skip

    def rivals(self, query_parts: Pairs, tokens: Pairs) -> float:
        """The share of the vocabulary's other tokens that would score as high as one of the text's.

        ``tokens`` (T,) are the positions of that token. Each other token of the vocabulary replaces
        it in every part of the key that carries it (``RowExplanation.by_token``).
        """
        reads = self._weights["key"]
        carried = {
            name: np.where(tokens, reads.get(name, np.float32(1)), np.float32(0))
            for name, carries in zip(self.row.names, self.reads_from("key", tokens), strict=True)
            if carries
        }
        scores = self.row.by_token(query_parts, self.key, carried)
        token = self.ids[tokens][0]
        return float((np.delete(scores, token) >= scores[token]).sum() / max(1, len(scores) - 1))

    def part(self, name: str) -> Pairs:
        """A mask that selects one part by its name: (n,)."""
        return np.array([part == name for part in self.row.names])

    @property
    def ids(self) -> NDArray[np.int64]:
        """The text's token ids: (T,)."""
        return np.array(self.row.trace.token_ids)

    @cached_property
    def _weights(self) -> dict[Side, dict[Part, Array]]:
        """The weights (T,) of every earlier head whose output is used, by part."""
        return {"query": self._weights_at(self.row.query), "key": self._weights_at(self.key)}

    def _weights_at(self, position: int) -> dict[Part, Array]:
        trace, n_head = self.row.trace, self.row.trace.config.n_head
        result = {}
        for layer in range(self.row.layer):
            if attention_is_off(trace.edits, layer):
                continue
            rows = trace.weights_of_queries(layer, slice(position, position + 1))[:, 0]  # (nh, T)
            factors = head_scale_factors(trace.edits, layer, n_head)
            used = np.flatnonzero(factors).tolist()
            result.update({Part("head", layer, n): rows[n] for n in used})
        return result

    def source_of(self, side: Side, part: Part) -> HeadCell | None:
        """The cell that a part's head attended to most; None for a part other than a head."""
        read = self._strongest_read(side, part)
        if read is None:
            return None
        return HeadCell(*part.of_head, self.row.query if side == "query" else self.key, read.token)

    @cached_property
    def sources(self) -> dict[tuple[Side, Part], HeadCell]:
        """The cells that all earlier heads attended to most, at the query and at the key."""
        cells = {at: self.source_of(*at) for at in product(get_args(Side), self.row.names)}
        return {at: cell for at, cell in cells.items() if cell is not None}

    def _strongest_read(self, side: Side, part: Part) -> Read | None:
        weights = self._weights[side].get(part)
        return None if weights is None else Read(int(weights.argmax()), float(weights.max()))

    def _pair(self, i: int, j: int, whole: float) -> Pair:
        asks, answers = self.row.names[i], self.row.names[j]
        value = float(self.deviation[i, j])
        without = self.row.ablated_weight(self.key, query_part=asks, key_part=answers)
        reads = self._strongest_read("query", asks), self._strongest_read("key", answers)
        return Pair(asks, answers, value, value / whole, without, *reads)

    def words(self, labels: Sequence[str] = ()) -> tuple[str, ...]:
        """Write it out in sentences; ``labels`` (T,) are the tokens as they are to be written."""
        return tuple(sentences(self, labels or self.row.trace.labels))

    def heatmap(self, *, raw: bool = False) -> Figure:
        """A Plotly figure of all pairs of parts and their sums; if ``raw``, with the row's mean."""
        return figures().reason(self, raw)

    def __repr__(self) -> str:
        return "\n".join(self.words())

    def _repr_mimebundle_(self, **_requested: Any) -> dict[str, str]:
        """Show a reason in a notebook: the sentences and the leading pairs, or its text."""
        return mimebundle(repr(self), lambda: figures().reason_html(self))


def reason(row: RowExplanation, key: int) -> Reason:
    """Why the query of ``row`` gives ``key`` its weight: leading pairs, and a rule if one holds.

    Raises ``PlaceError`` for a key that the query doesn't see.
    """
    row.row_of(key)
    return Reason(row, key)


def _own_parts(case: Reason) -> Pairs:
    """The query's parts that come from its own token, wherever it occurs."""
    return case.reads_from("query", case.ids == case.ids[case.row.query])


def _match_share(case: Reason, tokens: Pairs) -> float:
    """The share of the pairs of the query's own token with the token at some positions (T,).

    0 if too many other tokens would score as high: the head isn't looking for that token.
    """
    share = case.share(own := _own_parts(case), case.reads_from("key", tokens))
    return share if share >= HALF and case.rivals(own, tokens) <= RARE else 0.0


def _token_before(case: Reason) -> Pairs:
    """Mark the token before the key."""
    before: Pairs = np.arange(len(case.ids)) == case.key - 1
    return before


def _key_token(case: Reason) -> Pairs:
    """Mark the key's token, wherever it occurs."""
    alike: Pairs = case.ids == case.ids[case.key]
    return alike


def _induction(case: Reason) -> float:
    ids, query, key = case.ids, case.row.query, case.key
    if not 1 <= key <= query or ids[key - 1] != ids[query]:
        return 0.0
    return _match_share(case, _token_before(case))


def _duplicate(case: Reason) -> float:
    query, key = case.row.query, case.key
    again = key != query and case.ids[key] == case.ids[query]
    return _match_share(case, _key_token(case)) if again else 0.0


def _same_token(case: Reason) -> float:
    return _match_share(case, _key_token(case)) if case.key == case.row.query else 0.0


def _positions(case: Reason) -> float:
    return case.share(case.part("position"), case.part("position"))


def _distance(case: Reason) -> float:
    """The share of the deviation that any key at this distance would have; at most 1."""
    row, scores = case.row, case.row.by_distance
    if scores is None:
        return 0.0
    share = (scores[row.row_of(case.key)] - scores.mean()) / (case.raised + case.lowered)
    return float(np.clip(share, 0, 1))


def _first_token(case: Reason) -> float:
    row = case.row
    if case.key != 0 or row.query == 0 or case.weight < HALF:
        return 0.0
    weights = row.trace.stage("weights", row.layer, row.head)
    return float(weight_on(weights, first_token(row.trace.token_ids)))


#: The reasons that have a name, in the order in which they are tried.
RULES = (
    Rule(
        "induction",
        "why.induction",
        "why.of_induction",
        _induction,
        "Elhage et al. 2021, A Mathematical Framework for Transformer Circuits",
        _token_before,
    ),
    Rule(
        "duplicate token",
        "why.duplicate",
        "why.of_duplicate",
        _duplicate,
        "Wang et al. 2023, Interpretability in the Wild, section 3.1",
        _key_token,
    ),
    Rule(
        "same token",
        "why.same",
        "why.of_same",
        _same_token,
        "Elhage et al. 2021, A Mathematical Framework for Transformer Circuits",
        _key_token,
    ),
    Rule(
        "positions",
        "why.positions",
        "why.of_positions",
        _positions,
        "Elhage et al. 2021, A Mathematical Framework for Transformer Circuits",
    ),
    Rule(
        "distance",
        "why.distance",
        "why.of_distance",
        _distance,
        "Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding",
    ),
    Rule(
        "first token",
        "why.first",
        "why.of_first",
        _first_token,
        "Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks",
    ),
)
#: The sentences for heads that had copied the token looked for, by the sides that they wrote to.
_COPIED: dict[tuple[Side, ...], str] = {
    ("query",): "why.copied_to_query",
    ("key",): "why.copied_there",
    ("query", "key"): "why.copied_to_both",
}


def sentences(case: Reason, labels: Sequence[str]) -> list[str]:
    """A reason in sentences, a paragraph each: the reason, its numbers, and last its rule's.

    ``labels`` (T,) are the tokens as they are to be written.
    """
    row = case.row
    asks, answers = (f"{position} {labels[position]}" for position in (row.query, case.key))
    head, even = f"{row.layer}.{row.head}", 1 / len(row.keys)
    text = [
        _summary(case, labels),
        sentence("why.even", head=head, asks=asks, answers=answers, weight=case.weight, even=even),
    ]
    if len(row.keys) == 1:
        return text
    apart = case.raised + case.lowered
    text += [
        sentence("why.apart", apart=abs(apart), side="above" if apart > 0 else "below"),
        sentence("why.sums", raised=case.raised, lowered=abs(case.lowered)),
    ]
    if case.pairs:
        pair = case.pairs[0]
        text.append(sentence("why.without", pair=pair, weight=pair.ablated_weight))
    if case.rule is not None:
        rule, share = case.rule
        author = rule.source.partition(",")[0]
        measured = sentence(rule.measured, share=100 * share, rule=rule.name, author=author)
        rarely = [sentence("why.rare", most=100 * RARE)] if rule.looked_for else []
        text.append(" ".join([measured, *rarely]))
    return text


def _summary(case: Reason, labels: Sequence[str]) -> str:
    """The reason in a sentence."""
    row = case.row
    key = "itself" if case.key == row.query else f"“{labels[case.key]}”"
    ends = {"query": f"“{labels[row.query]}”", "key": key, "weight": case.weight}
    if len(row.keys) == 1:
        return sentence("why.single", **ends)
    if case.rule is not None:
        copiers = case.copiers
        copied = {f"by_{side}": part for side, part in copiers.items()}
        by = sentence(_COPIED[tuple(copiers)], **ends, **copied) if copiers else ""
        back = token_distance(row.query - case.key)
        return sentence(case.rule[0].because, **ends, back=back, by=by)
    if not case.pairs:
        return sentence("why.alike", **ends)
    pair = case.pairs[0]
    if not case.above:
        name = "why.lowered"
    elif case.weight * len(row.keys) < 1:
        name = "why.others_higher"
    else:
        name = "why.mostly" if pair.share >= HALF else "why.many"
    of_query, of_key = part_label(pair.query_part, "query"), part_label(pair.key_part, "key")
    return sentence(name, **ends, of_query=of_query, of_key=of_key)


def token_distance(back: int) -> str:
    """The distance of a token before a position, in words."""
    if back == 0:
        return "the token itself"
    tokens = "one token" if abs(back) == 1 else f"{abs(back)} tokens"
    return f"{tokens} {'back' if back > 0 else 'ahead'}"


def part_label(part: Part, side: Side) -> str:
    """A part in words: "the key's token", "head 0.0 at the key", "layer 0's MLP …"."""
    if part.layer is None:
        return f"the {side}'s {part}"
    if part.kind == "head":
        return f"{part} at the {side}"
    name = "MLP" if part.kind == "mlp" else "attention bias"
    return f"layer {part.layer}'s {name} at the {side}"


class Hop(NamedTuple):
    """A cell on the path down from another, and its strongest part, which leads on if it can."""

    cell: HeadCell
    by: Strongest


def strongest_path(model: Model, trace: Trace, cell: HeadCell) -> tuple[Hop, ...]:
    """The path from a cell down towards the tokens: at each cell its strongest part.

    If that is a head, the cell that it attended to most comes next. The path ends at any
    other part: an MLP can't be decomposed like that. It is empty if the query sees one key.
    Raises what ``explain_row`` and ``reason`` raise.
    """
    hops: list[Hop] = []
    following: HeadCell | None = cell
    while following is not None:
        case = reason(explain_row(model, trace, *following[:3]), following.key)
        if (by := case.strongest) is None:
            break
        hops.append(Hop(following, by))
        following = case.source_of(by.side, by.part)
    return tuple(hops)
