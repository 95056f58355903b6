"""What is to be said of what a reader wrote in a gap of the eighty lines.

The measure is a run of the model itself. What is at hand in a gap is noted while the eighty lines
run with that run's own tensors in all gaps, so a mistake in one spoils no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from gpt2viz.arrays import Array
from gpt2viz.labels import difference
from gpt2viz.model.checkpoint import Model
from gpt2viz.run.stages import StageName
from gpt2viz.run.trace import Trace
from gpt2viz.textbook.bounds import Value, Work
from gpt2viz.textbook.eighty_lines import GPT2
from gpt2viz.textbook.expressions import Expression, ExpressionError
from gpt2viz.textbook.gaps import Gap, weights

#: Tokens that a text must have, so that a mistake shows, and those of it that are read at most.
FEWEST, MOST = 3, 32
#: Scores below this are as good as −∞: softmax makes 0 of them.
_FAR = -1e4


class Case(NamedTuple):
    """One time that a gap is met: the ``names`` at hand, and the tensor that is ``wanted``."""

    names: Mapping[str, Value]
    wanted: Tensor

    @property
    def at_hand(self) -> dict[str, str]:
        """The names, each with its shape, or as a number with its value."""
        return {
            name: str(tuple(x.shape)) if isinstance(x, Tensor) else f"= {x}"
            for name, x in self.names.items()
        }

    @property
    def hides(self) -> bool:
        """Whether some of what is wanted is −∞."""
        return bool(self.wanted.isneginf().any())


class Verdict(NamedTuple):
    """What an expression in a gap is, and what there is to say of it."""

    kind: Literal["empty", "error", "shape", "values", "right"]
    said: str

    @property
    def runs(self) -> bool:
        """Whether a model with this in its gap runs through, be it right or wrong."""
        return self.kind in ("values", "right")


def as_in(model: Model, trace: Trace, n_tokens: int) -> dict[str, list[Case]]:
    """What each gap meets when the first tokens of a text are read, by the gap's name.

    Needs a ``trace`` with the mask on and without edits: there the first tokens' numbers are
    those of the shorter text. Attention's gaps are met once in each layer, the residual twice.
    """
    stages, cases = _stages(trace, n_tokens), defaultdict(list)

    def note(name: str, **names: Value) -> Tensor:
        cases[name].append(Case(names, next(stages[name])))
        return cases[name][-1].wanted

    with torch.inference_mode():
        GPT2(model.config, weights(model), note).logits(torch.tensor([trace.token_ids[:n_tokens]]))
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
    """What ``given`` is as an answer in all ``cases``, and in that of a ``shorter`` text."""
    if not given.strip():
        return Verdict("empty", "")
    off, work = 0.0, Work()
    try:
        expression = Expression(given)
        for case in cases:
            found = _made(expression, case, work)
            if not _same(found, case.wanted):
                return _wrong(gap, found, case)
            off = max(off, _off(found, case.wanted))
    except ExpressionError as error:
        return Verdict("error", str(error))
    if not _fits(expression, shorter):
        return Verdict(
            "error",
            "This is right for a text of just this length. Sizes must follow the text: use names "
            "such as T, not their numbers.",
        )
    said = f"Off the run's numbers by at most {difference(off)}" if off else "Exactly as in the run"
    times = f", in all {len(cases)} places" if len(cases) > 1 else ""
    return Verdict("right", f"{said}{times}.")


def _made(expression: Expression, case: Case, work: Work | None = None) -> Tensor:
    """What an expression makes; where −∞ is wanted, scores far below all others count as that."""
    found = expression.tensor(case.names, work)
    return found.masked_fill(found <= _FAR, -torch.inf) if case.hides else found


def _fits(expression: Expression, case: Case) -> bool:
    try:
        return _same(_made(expression, case), case.wanted)
    except ExpressionError:
        return False


def _same(found: Tensor, wanted: Tensor) -> bool:
    """Equal but for rounding: of sums of float32, in the order of the largest number."""
    if found.shape != wanted.shape:
        return False
    size = float(wanted[wanted.isfinite()].abs().amax()) if wanted.isfinite().any() else 0.0
    return torch.allclose(found, wanted, rtol=1e-4, atol=1e-5 * max(1.0, size), equal_nan=True)


def _off(found: Tensor, wanted: Tensor) -> float:
    """The largest difference where both are finite."""
    both = found.isfinite() & wanted.isfinite()
    return float((found - wanted)[both].abs().amax()) if both.any() else 0.0


def _wrong(gap: Gap, found: Tensor, case: Case) -> Verdict:
    """What is wrong with a tensor, and why, where a known mistake makes the same one."""
    known = (said for wrong, said in gap.near.items() if _is(found, wrong, case))
    why = next(known, "")
    if found.shape != case.wanted.shape:
        said = f"Its shape is {tuple(found.shape)}; {tuple(case.wanted.shape)} is wanted."
        return Verdict("shape", f"{said} {why}".rstrip())
    endless = ~(found.isfinite() == case.wanted.isfinite())
    if found.isnan().any():
        said = "The shape is right, but some numbers are NaN: not a number."
    elif endless.any():
        said = f"The shape is right, but {int(endless.sum())} numbers are finite in one and not "
        said += "in the other."
    else:
        off = _off(found, case.wanted)
        said = f"The shape is right, the numbers aren't: they are off by up to {off:.2g}."
    return Verdict("values", f"{said} {why}".rstrip())


def _is(found: Tensor, wrong: str, case: Case) -> bool:
    try:
        return _same(found, _made(Expression(wrong), case))
    except ExpressionError:
        return False
