"""The fewest heads and MLPs that undo what fine-tuning changed, restored one after the other.

A restored piece computes with the weights of ``before``, including the norm before it, on the
stream that reaches it in ``after``: a head writes into the stream what that head of ``before``
would have written, an MLP likewise. Embeddings, the last norm and the unembedding stay those of
``after``, so even all pieces together may not undo everything. It is activation patching
(Wang et al. 2022, "Interpretability in the Wild") with pieces of another model; see also Prakash et
al. 2024, "Fine-Tuning Enhances Existing Mechanisms", who put activations of one into the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gpt2viz.arrays import Array, Numbers
from gpt2viz.errors import ArgumentError
from gpt2viz.labels import first_few, sentence
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.devices import to_numpy
from gpt2viz.model.network import Mask
from gpt2viz.model.transformer import Transformer
from gpt2viz.run.forward import RUN_LOCK, listening
from gpt2viz.run.hooks import network_graph
from gpt2viz.run.stages import module_of

#: A head as (layer, head), or a layer's MLP as (layer, None).
Piece = tuple[int, int | None]
#: Of the pieces left, one in so many is restored before all others are tried again.
_SHARE = 32
#: Tokens that both models run at once.
_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class Restored:
    """Pieces in the order in which they were restored, and how much each undid.

    ``undone`` (len(pieces) + 1,) is the share of the change in predictions that is undone with the
    first n of them restored, 0 at first: 1 − KL(before ‖ restored) / KL(before ‖ after), each a
    mean over all tokens. ``all_back`` is that share with every head and MLP restored.
    """

    pieces: tuple[Piece, ...]
    undone: Numbers
    all_back: float

    @property
    def names(self) -> tuple[str, ...]:
        """The pieces' names, such as "1.3" and "MLP 1"."""
        return tuple(f"MLP {n}" if head is None else f"{n}.{head}" for n, head in self.pieces)

    def words(self) -> str:
        """Name the first pieces that together undo most, and say how much that is."""
        n = int(self.undone.argmax())
        return sentence(
            ("changes.restored_none", "changes.restored_one", "changes.restored")[min(n, 2)],
            n=n,
            pieces=first_few(self.names[:n], 8),
            share=100 * self.undone[n],
        )


def restore(
    before: Model,
    after: Model,
    sample: Sequence[Sequence[int]],
    pieces: Sequence[Piece],
    share: float = 0.95,
    progress: Callable[[Restored, float], object] | None = None,
) -> Restored:
    """Restore ``pieces`` of ``before`` in ``after`` until a ``share`` of the change is undone.

    Each time the piece that undoes most, measured on a ``sample`` of passages, given as ids; while
    more than 63 are left, a thirty-second of them is restored before the others are tried again.
    ``progress`` is called after every batch with the result so far and the share of the way that is
    done. Raises ``ArgumentError`` if both models predict the same.
    """
    search = _Search(before.network, after.network, [torch.tensor([[*row]]) for row in sample])
    nothing = torch.zeros(before.config.n_layer, before.config.n_head + 1, dtype=torch.bool)
    apart = float(search.divergence(nothing[None])[0])
    if not apart > 0:
        raise ArgumentError(sentence("changes.same_answers"))
    chosen, undone, back = list[Piece](), [0.0], nothing
    all_back = 1 - float(search.divergence(~nothing[None])[0]) / apart
    left = list(pieces)

    def result() -> Restored:
        return Restored(tuple(chosen), np.array(undone), all_back)

    def report(done: float) -> None:
        if progress is not None:
            progress(result(), min(1.0, (max(undone[-1], 0.0) + 0.1 * done) / share))

    while left and undone[-1] < share:
        alone = search.divergence(piece_masks(back, left), report)
        best = np.argsort(alone, kind="stable")[: max(1, len(left) // _SHARE)].tolist()
        together = piece_masks(back, [left[n] for n in best]).cumsum(0).bool()
        shares = 1 - search.divergence(together) / apart
        chosen += [left[n] for n in best]
        undone += shares.tolist()
        back = together[-1]
        left = [piece for n, piece in enumerate(left) if n not in best]
    return result()


def next_logits(
    before: Model, after: Model, ids: Sequence[int], pieces: Sequence[Piece] | None
) -> Array:
    """The logits (n_vocab,) after a text, of ``after`` with ``pieces`` of ``before`` restored; for
    None, of ``before`` itself."""
    text = torch.tensor([[*ids]])
    search = _Search(before.network, after.network, [text])
    if pieces is None:
        return to_numpy(search.predicted[0][0, -1])
    nothing = torch.zeros(before.config.n_layer, before.config.n_head + 1, dtype=torch.bool)
    back = piece_masks(nothing, pieces).any(0, keepdim=True)
    with RUN_LOCK, torch.inference_mode():
        return to_numpy(search.logits(search.sample[0], back.to(search.sample[0].device))[0, -1])


def piece_masks(back: Tensor, pieces: Sequence[Piece]) -> Tensor:
    """Masks (B, n_layer, ·) like ``back``, each with one more of the pieces."""
    masks = back.repeat(len(pieces), 1, 1)
    for mask, (layer, head) in zip(masks, pieces, strict=True):
        mask[layer, -1 if head is None else head] = True
    return masks


class _Search:
    """Both networks on a sample of texts (1, T), with the predictions of ``before``."""

    def __init__(self, before: Transformer, after: Transformer, sample: Sequence[Tensor]) -> None:
        self.before, self.after = before, after
        self.sample = [ids.to(after.device) for ids in sample]
        with RUN_LOCK, torch.inference_mode():
            self.predicted = [F.log_softmax(before(ids), dim=-1) for ids in self.sample]

    def divergence(self, back: Tensor, report: Callable[[float], None] = lambda _: None) -> Numbers:
        """KL(before ‖ restored) in bits, the mean over all tokens, with the pieces of each mask
        restored: (B, n_layer, nh + 1) -> (B,)."""
        total = np.zeros(len(back))
        n_tokens = sum(ids.shape[1] for ids in self.sample)
        for n, (ids, predicted) in enumerate(zip(self.sample, self.predicted, strict=True)):
            step = max(1, _AT_ONCE // ids.shape[1])
            for start in range(0, len(back), step):
                rows = slice(start, start + step)
                with RUN_LOCK, torch.inference_mode():
                    logits = self.logits(ids, back[rows].to(ids.device))
                    logs = F.log_softmax(logits.float(), dim=-1)
                    nats = F.kl_div(logs, predicted, reduction="none", log_target=True).sum(-1)
                    apart = (nats / math.log(2)).sum(-1)
                total[rows] += apart.double().cpu().numpy()
            report((n + 1) / len(self.sample))
        return total / n_tokens

    def logits(self, ids: Tensor, back: Tensor) -> Tensor:
        """Logits (B, T, n_vocab) of ``after`` with the pieces of each mask restored."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        mask = Mask.of(len(positions), positions)
        x = self.after.embed(ids, positions).expand(len(back), -1, -1)  # (B, T, C)
        for n, (old, new) in enumerate(zip(self.before.blocks, self.after.blocks, strict=True)):
            x = x + _attention(self, n, x, mask, back[:, n, :-1])
            made = new.mlp(new.mlp_norm(x))  # (B, T, C)
            if (here := back[:, n, -1]).any():
                made = torch.where(here[:, None, None], old.mlp(old.mlp_norm(x)), made)
            x = x + made
        logits: Tensor = self.after.lm_head(self.after.final_norm(x))
        return logits


def _attention(pair: _Search, layer: int, x: Tensor, mask: Mask, back: Tensor) -> Tensor:
    """The output of attention (B, T, C) with some heads (B, nh) restored."""
    made, parts = x, []
    for network in (pair.before, pair.after) if back.any() else (pair.after,):
        block = network.blocks[layer]
        name = module_of(network_graph(network), "head_output", layer)
        with listening(network, [name]) as outputs:
            made = block.attention(block.attention_norm(x), mask)  # ends as ``after``'s
        chosen = outputs[name] * back[:, :, None, None]  # (B, nh, T, hs)
        parts.append(torch.einsum("bhtd,hdc->btc", chosen, block.attention.output_weights()[0]))
    return made if len(parts) == 1 else made + parts[0] - parts[1]
