"""The first tokens of a text, taken from the run of another that begins with them.

With the causal mask on no token sees a later one, so the tensors of a text's first tokens are the
same in any run. Servers keep keys and values for that reason, and share them between texts with a
common prefix (Zheng et al. 2024, "SGLang: Efficient Execution of Structured Language Model
Programs", section 3); here every stage of a trace is shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from gpt2viz.errors import ArgumentError
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.network import Past
from gpt2viz.run.captured import Captured, Parts, Site
from gpt2viz.run.edits import Edit
from gpt2viz.run.key import common_prefix_length
from gpt2viz.run.stages import StageName
from gpt2viz.run.trace import Trace, check_run

#: If at least this share of an earlier run's tokens is reused, its rows are shared and not copied:
#: shared rows keep the whole run in memory.
_MOST = 0.9


@dataclass(frozen=True, eq=False)
class Start:
    """The first ``n`` tokens of a text, whose numbers an ``earlier`` run has."""

    earlier: Trace
    n: int

    def past(self, device: torch.device, explicit: bool) -> list[Past]:
        """Keys and values of these tokens in every layer; queries too, where scores are needed."""
        made = []
        for layer in range(self.earlier.config.n_layer):
            k, v = (_join_rows(self._rows((key, layer), device)) for key in "kv")
            q = _join_rows(self._rows(("q", layer), device)) if explicit else None
            made.append(Past(q, k, v))
        return made

    def merge(self, after: Mapping[Site, Tensor], n_tokens: int) -> Captured:
        """The stages of all ``n_tokens``, with those of the other tokens from ``after``."""
        result = dict[Site, Tensor | Parts]()
        copied = self.n < _MOST * len(self.earlier.token_ids)
        for site, new in after.items():
            result[site] = new  # already whole: k, v, and the (T, T) stages
            if new.shape[-2] < n_tokens:
                rows = (*self._rows(site, new.device), new)
                result[site] = _join_rows(rows) if copied else rows
        return Captured(result)

    def _rows(self, site: Site, device: torch.device) -> Parts:
        """These tokens' rows of a stage: (…, n, C) or (…, n, hs)."""
        captured = self.earlier.captured
        if site in captured:
            return tuple(part.to(device) for part in captured.first_rows(site, self.n))
        key, layer = cast("StageName", site[0]), site[1]
        rows = self.earlier.stage(key, layer)[..., : self.n, :]  # a long run's streams are sums
        return (torch.tensor(rows, device=device),)


def _join_rows(rows: Parts) -> Tensor:
    with torch.inference_mode():
        return rows[0] if len(rows) == 1 else torch.cat(rows, dim=-2)


def start_of(
    earlier: Trace | None, model: Model, ids: Sequence[int], causal: bool, edits: Sequence[Edit]
) -> Start | None:
    """The first tokens of ``ids`` whose numbers an earlier run of the model has, or None.

    The last token is always run, as the prediction comes from it. Raises ``ArgumentError`` for a
    run of another model, and where either run has the mask off or edits.
    """
    if earlier is None:
        return None
    check_run(earlier, model)
    if not (causal and earlier.causal):
        raise ArgumentError(
            "Only with the causal mask on, in both runs, can one reuse the other: without it a "
            "token's numbers depend on those after it."
        )
    if edits or earlier.edits:
        raise ArgumentError("A run with edits can't reuse another, nor be reused.")
    n = min(common_prefix_length(ids, earlier.token_ids), len(ids) - 1)
    return Start(earlier, n) if n else None
