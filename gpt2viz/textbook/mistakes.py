"""Five common mistakes: the error of plain PyTorch, and the error of this project's own code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from gpt2viz.textbook.claims import Claim
from gpt2viz.textbook.heads import MultiHeadAttention


@dataclass(frozen=True)
class Mistake:
    """``made`` makes the mistake as the texts do, and fails; ``caught`` is this project's own code.

    ``printed`` is the error that the text names, ``fix`` the advice.
    """

    name: str
    printed: str
    made: Callable[[], Any]
    caught: Callable[[], Any] | None
    fix: str
    why: str = ""


def message(make: Callable[[], Any]) -> tuple[str, str]:
    """(kind, message) of the error that ``make`` raises; two empty texts if it raises none."""
    try:
        make()
    except Exception as error:
        return type(error).__name__, str(error).removeprefix("config.json: ")  # there is no file
    return "", ""


def seven_heads() -> None:
    """768 channels for 7 heads, checked by a bare assertion as in the texts."""
    C, nh = 768, 7
    assert C % nh == 0  # noqa: S101 - the mistake is shown: an assertion without a message


class Forgetful(nn.Module):
    """A module whose ``__init__`` doesn't begin with ``super().__init__()``."""

    def __init__(self) -> None:
        self.query = nn.Linear(3, 3)


def wrong_width() -> Tensor:
    """512 channels into a layer that reads 768."""
    return nn.Linear(768, 768)(torch.zeros(2, 100, 512))  # type: ignore[no-any-return]


def view_after_transpose() -> Tensor:
    """Heads merged by ``view`` although transpose made them non-contiguous."""
    heads = torch.zeros(2, 12, 6, 64).transpose(1, 2)  # (2, 6, 12, 64), but not moved in memory
    return heads.view(2, 6, 768)


def stored_mask_too_small() -> Tensor:
    """1,024 tokens with a mask that was stored for 512."""
    mask = torch.ones(512, 512).triu(diagonal=1).bool()
    return torch.zeros(1024, 1024).masked_fill(mask[:1024, :1024], -torch.inf)


def too_many_tokens() -> Tensor:
    """6 tokens for a GPT-2 that has 4 positions."""
    tiny = GPT2(GPT2Config(vocab_size=10, n_positions=4, n_embd=4, n_layer=1, n_head=2))
    return tiny(torch.zeros(1, 6, dtype=torch.long))  # type: ignore[no-any-return]


MISTAKES = (
    Mistake(
        "Heads that don't divide the width",
        "AssertionError",
        seven_heads,
        lambda: GPT2Config(n_embd=768, n_head=7),
        "Every head gets the same number of channels. Choose a divisor of 768, such as 6, 8, 12 or "
        "16. A bare `assert` says nothing more than that it failed; `assert C % nh == 0, (C, nh)` "
        "says why.",
    ),
    Mistake(
        "`super().__init__()` forgotten",
        "RuntimeError",
        Forgetful,
        None,
        "Make `super().__init__()` the first line of `__init__`: it prepares the module's list of "
        "parameters.",
        "PyTorch raises an AttributeError here.",
    ),
    Mistake(
        "An input of the wrong width",
        "RuntimeError",
        wrong_width,
        lambda: MultiHeadAttention(768, 12, n_positions=128)(torch.zeros(2, 100, 512)),
        "The last axis of x must be the width that the module was built for.",
    ),
    Mistake(
        "`view` straight after `transpose`",
        "RuntimeError",
        view_after_transpose,
        None,
        "`transpose` changes only the order in which the numbers are counted, not where they lie. "
        "Use `reshape`, which moves them if it must, or `contiguous()` before `view`. This "
        "project's model uses `reshape`.",
    ),
    Mistake(
        "More tokens than the model has positions for",
        "IndexError",
        stored_mask_too_small,
        too_many_tokens,
        "Shorten the text, or use a model with a longer context.",
        "Slicing past the end of the mask gives no error, only a mask that is too small; then two "
        "sizes don't match, which is a RuntimeError.",
    ),
)


def mistake_claims() -> list[Claim]:
    """E23: the kind of error that each mistake raises in plain PyTorch."""
    return [Claim(m.name, m.printed, message(m.made)[0], m.why) for m in MISTAKES]
