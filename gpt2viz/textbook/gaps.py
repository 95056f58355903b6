"""The gaps of the eighty lines, a reader's draft of them, and the check of each.

An expression is checked against a run of the model itself. A gap's variables are recorded while the
eighty lines run with that run's own tensors in all gaps, so a mistake in one affects no other.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gpt2viz.arrays import Array
from gpt2viz.labels import difference
from gpt2viz.model import network
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import ACTIVATION
from gpt2viz.run.stages import StageName
from gpt2viz.run.trace import Trace
from gpt2viz.textbook.eighty_lines import GPT2
from gpt2viz.textbook.expressions import Expression, ExpressionError
from gpt2viz.textbook.operations import MOST_WORK, Value, Work
from gpt2viz.textbook.tensors import randomize

#: Tokens that a reader's model generates, and the text shown for an empty gap.
NEW, BLANK = 10, "______"
#: A gap in the source of the eighty lines.
_GAP = re.compile(r'self\.gap\("(\w+)"[^)]*\)')


class Gap(NamedTuple):
    """A place in the eighty lines, by the ``name`` in its call.

    ``does`` explains the operation, ``hint`` gives a hint. ``right`` is a correct expression, and
    ``near`` has a message for each known wrong one.
    """

    name: str
    title: str
    does: str
    hint: str
    right: str
    near: Mapping[str, str]

    @property
    def line(self) -> str:
        """The line of the eighty lines that it is in, with a blank for it."""
        source = inspect.getsource(GPT2).splitlines()
        (line,) = (line for line in source if f'gap("{self.name}"' in line)
        return _GAP.sub(BLANK, line.strip())

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of the gap's tensor, as in the line's comment: (B, T, C), say."""
        return tuple(self.line.rpartition("# (")[2].rstrip(")").split(", "))


class Draft:
    """The eighty lines with a reader's expressions, ``given`` by the gaps' names."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = given

    def source(self) -> str:
        """The source, with a blank for each invalid expression."""
        return _GAP.sub(self._text, inspect.getsource(GPT2))

    def _text(self, match: re.Match[str]) -> str:
        try:
            return Expression(self.given.get(match[1], "")).text
        except ExpressionError:
            return BLANK

    def file(self, model: Model, ids: Sequence[int]) -> str:
        """A file of plain PyTorch modules with these expressions, which generates text from ids.

        It is for weights like the model's; its template is ``book/my_gpt2.txt``. Raises
        ``ExpressionError`` for an invalid expression.
        """
        config = cast(GPT2Config, model.config)
        filled = {gap.name: Expression(self.given.get(gap.name, "")) for gap in GAPS}
        called = sorted({name for text in filled.values() for name in text.functions})
        homes = {"torch.nn.functional": F, "torch": torch, "torch.Tensor": Tensor}
        functions = [
            f"{name} = {next(home for home, its in homes.items() if hasattr(its, name))}.{name}"
            for name in called
            if name not in ("sqrt", "float")  # of numbers
        ]
        C, width, eps = config.n_embd, config.mlp_dim, config.layer_norm_epsilon
        sizes = config.vocab_size, config.n_positions, C, config.n_layer, config.n_head, width, eps
        curve = ACTIVATION[config.activation_function].__name__
        values = {name: text.text for name, text in filled.items()} | {
            "functions": "; ".join([*functions, "sqrt = lambda x: x**0.5"]),
            "activation": f"nn.{curve}()" if hasattr(nn, curve) else 'nn.GELU("tanh")',
            "sizes": ", ".join(map(str, sizes)),
            "ids": str(list(ids)),
            "new": str(NEW),
        }
        source = (BOOK / "my_gpt2.txt").read_text("utf-8")
        return re.sub(r"\{(\w+)\}", lambda name: values[name[1]], source)

    def build(self, model: Model) -> GPT2:
        """The eighty lines with a model's weights, to generate ``NEW`` tokens at most.

        A gap's result must have the shape expected there for any length of text. So the lines
        around the gaps need as much memory as the model itself, and a gap at most
        ``operations.MOST_BYTES`` more. Raises ``ExpressionError`` for an invalid expression. One
        that fails, gives another shape, or takes too much work raises it while the lines run.
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
    """The model's weights by name, on the CPU in float32; not copied if they are already there."""
    named = model.network.named_parameters()
    return {name: weight.detach().to("cpu", torch.float32) for name, weight in named}


#: The book's folder; the gaps in the order in which a reader fills them, from ``gaps.toml``.
BOOK = Path(__file__).parents[1] / "book"
GAPS = tuple(
    Gap(name, **gap) for name, gap in tomllib.loads((BOOK / "gaps.toml").read_text("utf-8")).items()
)
_AXES = {gap.name: gap.axes for gap in GAPS}
#: The correct expression of each gap.
FILLED = {gap.name: gap.right for gap in GAPS}


#: The fewest tokens that reveal a mistake, and the most that are used.
FEWEST, MOST = 3, 32
#: Scores below this count as −∞: softmax turns them into 0.
_FAR = -1e4


class Case(NamedTuple):
    """One evaluation of a gap: its variables (``names``), and the ``expected`` tensor."""

    names: Mapping[str, Value]
    expected: Tensor

    @property
    def at_hand(self) -> dict[str, str]:
        """The variables, each with its shape, or a number's value."""
        return {
            name: str(tuple(x.shape)) if isinstance(x, Tensor) else f"= {x}"
            for name, x in self.names.items()
        }


class Verdict(NamedTuple):
    """The result of checking an expression in a gap, with a message for the reader."""

    kind: Literal["empty", "error", "shape", "values", "right"]
    remark: str

    @property
    def runs(self) -> bool:
        """True if a model with this expression in its gap runs, whether right or wrong."""
        return self.kind in ("values", "right")


def trace_cases(model: Model, trace: Trace, n_tokens: int) -> dict[str, list[Case]]:
    """Each gap's cases for the first tokens of a text, by the gap's name.

    Needs a ``trace`` with the mask on and without edits: only then are the first tokens' tensors
    those of the shorter text. Attention's gaps have one case per layer, the residual two.
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
    """For each gap, the run's own tensors in the order in which the eighty lines compute them."""
    layers = range(trace.config.n_layer)
    parts: tuple[StageName, ...] = ("residual_mid", "residual_out")
    heads = (trace.stage("head_output", n)[0, :, :T] for n in layers)  # (nh, T, hs) each

    def matrices(key: StageName) -> Iterator[Array]:
        return (trace.stage(key, n)[:, :, :T, :T] for n in layers)

    made: dict[str, Iterable[Array]] = {
        "embedding": [trace.stage("embedding")[:, :T]],
        "scores": matrices("scores"),
        "scale": matrices("scaled_scores"),
        "mask": matrices("masked_scores"),
        "softmax": matrices("weights"),
        "merge": (np.concatenate(list(of_layer), axis=-1)[None] for of_layer in heads),  # (1, T, C)
        "residual": (trace.stage(key, n)[:, :T] for n in layers for key in parts),
        "head": [trace.stage("final_norm")[:, :T] @ trace.unembedding.T],
    }
    return {gap: map(torch.tensor, arrays) for gap, arrays in made.items()}


@lru_cache(maxsize=8)
def random_cases(nh: int, hs: int, T: int) -> Mapping[str, Case]:
    """Each gap's case in a small random model, for two texts of a length other than T.

    Its head count and head size differ from nh and hs, to distinguish a constant that is right by
    chance from a variable.
    """
    nh, hs = (3 if nh != 3 else 2), (5 if hs != 5 else 7)
    config = GPT2Config(vocab_size=29, n_positions=T + 3, n_embd=nh * hs, n_layer=1, n_head=nh)
    random, cases = randomize(network.GPT2(config), seed=0), {}

    def note(name: str, **names: Value) -> Tensor:
        cases[name] = Case(names, Expression(FILLED[name]).tensor(names))
        return cases[name].expected

    with torch.inference_mode():
        ids = torch.arange(2 * (T + 1)).reshape(2, T + 1) % 29
        GPT2(config, dict(random.named_parameters()), note).logits(ids)
    return cases


def judge(gap: Gap, given: str, cases: Sequence[Case], other: Case) -> Verdict:
    """Check a ``given`` expression in all ``cases``, and in the ``other``, of other sizes."""
    if not given.strip():
        return Verdict("empty", "")
    off, work = 0.0, Work()
    try:
        expression = Expression(given)
        for case in cases:
            made = _evaluate(expression, case, work)
            if not _is_close(made, case.expected):
                return _wrong(gap, made, case)
            off = max(off, _largest_difference(made, case.expected))
    except ExpressionError as error:
        return Verdict("error", str(error))
    if not _evaluates_to(given, other, other.expected):
        return Verdict(
            "error",
            "This is right for this model and a text of this length alone. Sizes must follow them: "
            "use names such as T or hs, or a shape, not their numbers.",
        )
    close = f"Matches the run to within {difference(off)}" if off else "Exactly as in the run"
    times = f", all {len(cases)} times that it is asked for" if len(cases) > 1 else ""
    return Verdict("right", f"{close}{times}.")


def _evaluate(expression: Expression, case: Case, work: Work | None = None) -> Tensor:
    """An expression's tensor; where −∞ is expected, very low scores are replaced by it."""
    made = expression.tensor(case.names, work)
    hides = case.expected.isneginf().any()
    return made.masked_fill(made <= _FAR, -torch.inf) if hides else made


def _evaluates_to(text: str, case: Case, expected: Tensor) -> bool:
    """True if an expression can be evaluated in a case, and gives the expected tensor."""
    try:
        return _is_close(_evaluate(Expression(text), case), expected)
    except ExpressionError:
        return False


def _is_close(made: Tensor, expected: Tensor) -> bool:
    """Equal up to float32 rounding, relative to the largest number."""
    if made.shape != expected.shape:
        return False
    size = float(expected[expected.isfinite()].abs().amax()) if expected.isfinite().any() else 0.0
    return torch.allclose(made, expected, rtol=1e-4, atol=1e-5 * max(1.0, size), equal_nan=True)


def _largest_difference(made: Tensor, expected: Tensor) -> float:
    """The largest difference where both are finite."""
    both = made.isfinite() & expected.isfinite()
    return float((made - expected)[both].abs().amax()) if both.any() else 0.0


def _wrong(gap: Gap, made: Tensor, case: Case) -> Verdict:
    """The verdict on a wrong tensor, with the reason if a known mistake gives the same tensor."""
    known = (message for wrong, message in gap.near.items() if _evaluates_to(wrong, case, made))
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
        off = _largest_difference(made, case.expected)
        message = f"The shape is right, the numbers aren't: they are off by up to {off:.2g}."
    return Verdict("values", f"{message} {why}".rstrip())
