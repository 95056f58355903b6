"""The gaps of the eighty lines, a reader's draft of them, and the judgement on each.

The measure is a run of the model itself. What is at hand in a gap is noted while the eighty lines
run with that run's own tensors in all gaps, so a mistake in one spoils no other.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor

from gpt2viz.arrays import Array
from gpt2viz.labels import difference
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.config import GPT2Config
from gpt2viz.run.stages import StageName
from gpt2viz.run.trace import Trace
from gpt2viz.textbook.eighty_lines import GPT2
from gpt2viz.textbook.expressions import Expression, ExpressionError
from gpt2viz.textbook.operations import MOST_WORK, Value, Work

#: Tokens that a reader's model writes, and what stands for a gap that is empty.
NEW, BLANK = 10, "______"
#: How the eighty lines ask for what belongs in a gap.
_PLACE = re.compile(r'self\.gap\("(\w+)"[^)]*\)')


class Gap(NamedTuple):
    """A place in the eighty lines; ``name`` is how they ask for what belongs there.

    ``does`` says what that does, ``hint`` how to get there. ``near`` has a sentence for each wrong
    expression that is known.
    """

    name: str
    title: str
    does: str
    hint: str
    near: Mapping[str, str]

    @property
    def line(self) -> str:
        """The line of the eighty lines that it is in, with a blank for it."""
        source = inspect.getsource(GPT2).splitlines()
        (line,) = (line for line in source if f'gap("{self.name}"' in line)
        return _PLACE.sub(BLANK, line.strip())

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of what belongs there, as the line's comment names them: (B, T, C), say."""
        return tuple(self.line.rpartition("# (")[2].rstrip(")").split(", "))


class Draft:
    """The eighty lines as a reader fills their gaps: by name, those of what is ``given``."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = given

    def source(self) -> str:
        """The source, with a blank for what is no expression."""
        return _PLACE.sub(self._text, inspect.getsource(GPT2))

    def _text(self, match: re.Match[str]) -> str:
        try:
            return Expression(self.given.get(match[1], "")).text
        except ExpressionError:
            return BLANK

    def read_by(self, model: Model) -> GPT2:
        """The eighty lines with a model's weights, to write ``NEW`` tokens at most.

        What a gap makes has the shape that belongs there, whatever the length of the text. So
        the lines round it take what they take in the model itself, and a gap at most
        ``bounds.MOST_BYTES`` besides. Raises ``ExpressionError`` for what can't be read. What
        can't be computed, has another shape, or takes too much work raises it as they run.
        """
        expressions = {gap.name: Expression(self.given.get(gap.name, "")) for gap in GAPS}
        work, config = Work(NEW * MOST_WORK), model.config
        sizes = {"C": config.n_embd, "nh": config.n_head, "n_vocab": config.vocab_size}

        def fill(name: str, **names: Value) -> Tensor:
            if isinstance(ids := names.get("ids"), Tensor):
                sizes["B"], sizes["T"] = ids.shape
            made = expressions[name].tensor(names, work)
            if made.shape != (shape := tuple(sizes[axis] for axis in _AXES[name])):
                raise ExpressionError(
                    f"With {sizes['T']} tokens, `{expressions[name].text}` has the shape "
                    f"{tuple(made.shape)}, but {shape} is needed."
                )
            if name == "head" and made.isnan().any():
                raise ExpressionError("the logits are NaN, so no token is the most probable.")
            return made

        return GPT2(cast(GPT2Config, config), weights(model), fill)


def weights(model: Model) -> dict[str, Tensor]:
    """The model's weights by name, on the CPU in float32; of those that are, no copy."""
    named = model.network.named_parameters()
    return {name: weight.detach().to("cpu", torch.float32) for name, weight in named}


_LATER = "triu(ones(T, T), 1) == 1"

GAPS: tuple[Gap, ...] = (
    Gap(
        "embedding",
        "Embedding sum",
        "Each token becomes the vector of its id, plus the vector of its place.",
        "Square brackets look up rows. Ids pick rows of `wte`; the first T rows of `wpe` are the "
        "places.",
        {
            "wte[ids]": "The position vectors are missing: the model would know no order.",
            "wpe[:T]": "The token vectors are missing: every text would be the same.",
            "wte[ids] * wpe[:T]": "The two are multiplied. GPT-2 adds them.",
            "wte[ids] - wpe[:T]": "The position is taken away. GPT-2 adds it.",
            "wte[ids] + wpe[0]": "Every token gets the vector of place 0.",
            "wte[ids] + wpe[T]": "Every token gets the vector of one place.",
            "wte[ids] + wpe[1:T + 1]": "Places count from 0: yours begin with 1.",
        },
    ),
    Gap(
        "scores",
        "Scores",
        "The dot product of every query with every key: rows are queries, columns are keys.",
        "`@` multiplies tables: a row of the left with a column of the right. Keys lie in rows. "
        "`.mT` turns rows into columns.",
        {
            "k @ q.mT": "These are transposed: rows must be queries, columns keys.",
            "q @ k.mT / sqrt(q.shape[-1])": "The scale comes in the next gap.",
            "q @ q.mT": "Queries meet queries. The keys are left out.",
            "k @ k.mT": "Keys meet keys. The queries are left out.",
            "q * k": "Each query meets only the key of its own place, and nothing is summed.",
            "q + k": "Added. A dot product multiplies, then sums.",
            "q.mT @ k": "That is channels against channels, not tokens against tokens.",
            "q @ k.reshape(q.shape[0], q.shape[1], q.shape[3], q.shape[2])": "Reshaping leaves the "
            "numbers in their order. To swap two axes, transpose.",
        },
    ),
    Gap(
        "scale",
        "Scale",
        "The scores become smaller, so that their spread doesn't grow with the head size.",
        "A sum of hs products spreads as the square root of hs.",
        {
            "scores": "Nothing is scaled: √hs is missing.",
            "scores / hs": "Divided by hs itself. Its square root is needed.",
            "scores * sqrt(hs)": "Multiplied: that makes the spread larger.",
            "scores * hs": "Multiplied, and by hs itself.",
            "scores / sqrt(C)": "C is the channels of all heads together; a dot product here has "
            "hs terms.",
            "scores / sqrt(nh)": "nh is how many heads there are; a dot product has hs terms.",
            "sqrt(scores / hs)": "The root is of hs alone, not of the scores.",
            "scores - sqrt(hs)": "Subtracting shifts all scores alike. Softmax wouldn't notice.",
        },
    ),
    Gap(
        "mask",
        "Causal mask",
        "No query may see a later key: there the score becomes −∞.",
        "`tril(ones(T, T))` is 1 on and below the diagonal. `x.masked_fill(where, number)` writes "
        "a number where a comparison is true. −∞ is `-inf`.",
        {
            "scaled": "Nothing is hidden: each query still sees later keys.",
            f"scaled.masked_fill({_LATER}, 0)": "A score of 0 isn't hidden: softmax makes "
            "e⁰ = 1 of it. −∞ becomes 0.",
            f"scaled.masked_fill({_LATER}, inf)": "That is +∞: later keys would take everything.",
            "scaled.masked_fill(tril(ones(T, T)) == 1, -inf)": "Turned round: the keys that may be "
            "seen are hidden, and later ones are left.",
            "scaled.masked_fill(tril(ones(T, T), -1) == 1, -inf)": "Transposed: earlier keys are "
            "hidden, and later ones are left.",
            "scaled.masked_fill(triu(ones(T, T)) == 1, -inf)": "The diagonal is hidden too. A "
            "token may see itself, else the first sees nothing.",
            "scaled.masked_fill(triu(ones(T, T), 2) == 1, -inf)": "The next token can still be "
            "seen, the very one that is to be predicted.",
            f"softmax(scaled.masked_fill({_LATER}, -inf), dim=-1)": "Softmax comes in the next "
            "gap.",
            f"softmax(scaled, dim=-1).masked_fill({_LATER}, 0)": "Masked after softmax: the rows "
            "no longer sum to 1.",
            "tril(ones(T, T))": "That is the mask alone. The scores are left out.",
        },
    ),
    Gap(
        "softmax",
        "Softmax",
        "Scores become shares: none below 0, and each query's sum to 1.",
        "The axis to sum over is that of the keys, the last. Axes count from 0, or from the end "
        "with −1.",
        {
            "softmax(masked, dim=-2)": "Over the wrong axis: columns sum to 1, and rows should.",
            "softmax(masked, dim=1)": "Over the wrong axis: that one is the heads.",
            "softmax(masked, dim=0)": "Over the wrong axis: that one is the texts of a batch.",
            "softmax(masked, dim=-1).mT": "The result is transposed.",
            "softmax(masked.mT, dim=-1)": "The scores were transposed first.",
            "exp(masked)": "Not divided by their sum yet.",
            "masked": "These are still the scores.",
            "exp(masked) / exp(masked).sum()": "Divided by the sum of all. Each row has its own.",
            "masked / masked.sum(-1, keepdim=True)": "Without exp, −∞ stays, and shares may be "
            "below 0.",
        },
    ),
    Gap(
        "merge",
        "Merge",
        "For each token, the outputs of all heads stand side by side again.",
        "It undoes what was done to q, k and v. First tokens come before heads again, then two "
        "axes become one.",
        {
            "heads.reshape(B, T, C)": "Merged without transposing: a row would mix the tokens of "
            "one head. First swap heads and tokens.",
            "heads.mT.reshape(B, T, C)": "Tokens and channels were swapped. Swap heads and tokens.",
            "heads.transpose(1, 2)": "Tokens come first, but the heads are still an axis apart.",
            "heads.transpose(1, 2).mT.reshape(B, T, C)": "Channels of different heads alternate. "
            "Each head's should stay together.",
            "heads.sum(1)": "The heads are summed. They should stand side by side.",
            "heads.mean(1)": "That is the heads' mean. They should stand side by side.",
            "heads": "Nothing is merged yet.",
        },
    ),
    Gap(
        "residual",
        "Residual",
        "What attention made goes into the stream, and then what the MLP made.",
        "The stream is read, and nothing is erased from it.",
        {
            "made": "It replaces the stream: all that was there is lost.",
            "x": "What was made is thrown away: the layers would do nothing.",
            "x - made": "It is taken away. GPT-2 adds it.",
            "x * made": "Multiplied. GPT-2 adds it.",
            "made - x": "The stream is taken away from what was made. GPT-2 adds the two.",
            "(x + made) / 2": "Their mean halves the stream at every step. GPT-2 adds the two.",
        },
    ),
    Gap(
        "head",
        "Tied head",
        "Each token's vector meets the vector of every entry of the vocabulary.",
        "The table of the beginning is used again: one dot product with each of its rows. "
        "`linear` above does the same, and adds a bias.",
        {
            "softmax(x @ wte.mT, dim=-1)": "These are probabilities. Logits are wanted.",
            "wte @ x.mT": "Transposed: for each token a row of logits is needed.",
            "x[:, -1:] @ wte.mT": "That is the last token alone. Every token has its logits.",
            "x[:, -1] @ wte.mT": "That is the last token alone. Every token has its logits.",
            "x @ wte.mT / sqrt(x.shape[-1])": "Logits aren't scaled. Only attention's scores are.",
            "x": "These are still vectors of the stream.",
            "wte": "That is the table alone.",
        },
    ),
)
_AXES = {gap.name: gap.axes for gap in GAPS}


#: Tokens that a text must have, so that a mistake shows, and those of it that are read at most.
FEWEST, MOST = 3, 32
#: Scores below this are as good as −∞: softmax makes 0 of them.
_FAR = -1e4


class Case(NamedTuple):
    """One time that a gap is met: the ``names`` at hand, and the tensor that is ``expected``."""

    names: Mapping[str, Value]
    expected: Tensor

    @property
    def at_hand(self) -> dict[str, str]:
        """The names, each with its shape, or as a number with its value."""
        return {
            name: str(tuple(x.shape)) if isinstance(x, Tensor) else f"= {x}"
            for name, x in self.names.items()
        }

    @property
    def hides(self) -> bool:
        """True where a part of the expected tensor is −∞."""
        return bool(self.expected.isneginf().any())


class Verdict(NamedTuple):
    """The judgement on an expression in a gap, with a remark for the reader."""

    kind: Literal["empty", "error", "shape", "values", "right"]
    remark: str

    @property
    def runs(self) -> bool:
        """True where a model with this in its gap runs through, be it right or wrong."""
        return self.kind in ("values", "right")


def as_in(model: Model, trace: Trace, n_tokens: int) -> dict[str, list[Case]]:
    """Each gap's cases as the first tokens of a text are read, by the gap's name.

    Needs a ``trace`` with the mask on and without edits: there the first tokens' numbers are
    those of the shorter text. Attention's gaps are met once in each layer, the residual twice.
    """
    stages, cases = _stages(trace, n_tokens), defaultdict(list)

    def note(name: str, **names: Value) -> Tensor:
        cases[name].append(Case(names, next(stages[name])))
        return cases[name][-1].expected

    with torch.inference_mode():
        config = cast(GPT2Config, model.config)
        GPT2(config, weights(model), note).logits(torch.tensor([trace.token_ids[:n_tokens]]))
    return dict(cases)


def _stages(trace: Trace, T: int) -> dict[str, Iterator[Tensor]]:
    """For each gap, the run's own tensors in the order in which they are asked for."""
    layers = range(trace.config.n_layer)

    def every(key: StageName) -> Iterator[Tensor]:
        return (_copy(trace.stage(key, n)[:, :, :T, :T]) for n in layers)

    def merged() -> Iterator[Tensor]:
        for n in layers:
            heads = _copy(trace.stage("head_output", n)[0, :, :T])  # (nh, T, hs)
            yield torch.cat(list(heads), dim=-1)[None]  # (1, T, C)

    parts: tuple[StageName, ...] = ("residual_mid", "residual_out")
    stream = ((key, n) for n in layers for key in parts)
    last = trace.stage("final_norm")[:, :T]  # (1, T, C)
    return {
        "embedding": iter([_copy(trace.stage("embedding")[:, :T])]),
        "scores": every("scores"),
        "scale": every("scaled_scores"),
        "mask": every("masked_scores"),
        "softmax": every("weights"),
        "merge": merged(),
        "residual": (_copy(trace.stage(key, n)[:, :T]) for key, n in stream),
        "head": iter([_copy(last @ trace.unembedding.T)]),
    }


def _copy(values: Array) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def judge(gap: Gap, given: str, cases: Sequence[Case], shorter: Case) -> Verdict:
    """Judge what was ``given`` in all ``cases``, and in that of a ``shorter`` text."""
    if not given.strip():
        return Verdict("empty", "")
    off, work = 0.0, Work()
    try:
        expression = Expression(given)
        for case in cases:
            made = _made(expression, case, work)
            if not _same(made, case.expected):
                return _wrong(gap, made, case)
            off = max(off, _off(made, case.expected))
    except ExpressionError as error:
        return Verdict("error", str(error))
    if not _fits(expression, shorter):
        return Verdict(
            "error",
            "This is right for a text of just this length. Sizes must follow the text: use names "
            "such as T, not their numbers.",
        )
    difference_text = (
        f"Off the run's numbers by at most {difference(off)}" if off else "Exactly as in the run"
    )
    times = f", in all {len(cases)} places" if len(cases) > 1 else ""
    return Verdict("right", f"{difference_text}{times}.")


def _made(expression: Expression, case: Case, work: Work | None = None) -> Tensor:
    """An expression's tensor; where −∞ is expected, scores far below all others count as that."""
    made = expression.tensor(case.names, work)
    return made.masked_fill(made <= _FAR, -torch.inf) if case.hides else made


def _fits(expression: Expression, case: Case) -> bool:
    try:
        return _same(_made(expression, case), case.expected)
    except ExpressionError:
        return False


def _same(made: Tensor, expected: Tensor) -> bool:
    """Equal but for rounding: of sums of float32, in the order of the largest number."""
    if made.shape != expected.shape:
        return False
    size = float(expected[expected.isfinite()].abs().amax()) if expected.isfinite().any() else 0.0
    return torch.allclose(made, expected, rtol=1e-4, atol=1e-5 * max(1.0, size), equal_nan=True)


def _off(made: Tensor, expected: Tensor) -> float:
    """The largest difference where both are finite."""
    both = made.isfinite() & expected.isfinite()
    return float((made - expected)[both].abs().amax()) if both.any() else 0.0


def _wrong(gap: Gap, made: Tensor, case: Case) -> Verdict:
    """The fault of a tensor, with the reason where a known mistake makes the same one."""
    known = (message for wrong, message in gap.near.items() if _is(made, wrong, case))
    why = next(known, "")
    if made.shape != case.expected.shape:
        message = f"Its shape is {tuple(made.shape)}; {tuple(case.expected.shape)} is needed."
        return Verdict("shape", f"{message} {why}".rstrip())
    endless = ~(made.isfinite() == case.expected.isfinite())
    if made.isnan().any():
        message = "The shape is right, but some numbers are NaN: not a number."
    elif endless.any():
        message = f"The shape is right, but {int(endless.sum())} numbers are finite in one and not "
        message += "in the other."
    else:
        off = _off(made, case.expected)
        message = f"The shape is right, the numbers aren't: they are off by up to {off:.2g}."
    return Verdict("values", f"{message} {why}".rstrip())


def _is(made: Tensor, wrong: str, case: Case) -> bool:
    try:
        return _same(made, _made(Expression(wrong), case))
    except ExpressionError:
        return False
