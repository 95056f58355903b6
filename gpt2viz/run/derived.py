"""Stages that a long run leaves out, computed with the model's attention from those it kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpt2viz.arrays import Array, Numbers, Pairs
from gpt2viz.model.config import ModelConfig
from gpt2viz.model.devices import to_numpy
from gpt2viz.model.mask import hidden_pairs
from gpt2viz.model.network import Attend
from gpt2viz.model.tuning import threads
from gpt2viz.run.captured import Site
from gpt2viz.run.stages import STAGES

#: Stages that a long run doesn't capture, as they can be computed from q, k and v …
FROM_HEADS = tuple(stage.key for stage in STAGES if stage.module.endswith(f".attend.{stage.key}"))
#: … and from the start of the stream and all that was added to it.
FROM_STREAM = ("residual_mid", "residual_out")


#: Queries in a block: so few that their scores in one head fit into a core's cache.
_BLOCK = 128


class Last(NamedTuple):
    """The last stages computed: of a (layer, head), or of all heads where ``head`` is None."""

    layer_and_head: tuple[int, int | None]
    stages: Mapping[str, Array]


class _Block(NamedTuple):
    """A block of ``queries``, which see no key after the first ``seen``.

    ``hidden`` is their mask for the keys from ``before`` on; they see all keys before that.
    """

    queries: slice
    before: int
    seen: int
    hidden: Tensor

    def weights(self, q: Tensor, keys: Tensor) -> Tensor:
        """A head's weights, from its scaled q (P, hs) and its kᵀ (hs, T): (r, seen)."""
        scores = q[self.queries] @ keys[:, : self.seen]
        scores[:, self.before :].masked_fill_(self.hidden, -math.inf)
        return scores.softmax(-1)


class Derived:
    """The stages that a run of T tokens left out, from those that it ``captured``.

    ``causal`` and ``forbidden`` (T, T) say which keys it hid. The last of each kind is cached.
    """

    def __init__(
        self,
        captured: Mapping[Site, Array],
        config: ModelConfig,
        n_tokens: int,
        causal: bool,
        forbidden: Pairs | None,
    ) -> None:
        self._captured, self._config = captured, config
        self._n_tokens, self._causal, self._forbidden = n_tokens, causal, forbidden
        self._last: dict[tuple[str, ...], Last] = {}

    def hidden_pairs(self, layer: int | None, queries: slice = slice(None)) -> Pairs:
        """True where a query (row) may not see a key (column): (T, T), or some queries' rows.

        A ``layer``'s window counts too; without one, only the mask and edits do.
        """
        positions, window = np.arange(self._n_tokens), self._window(layer)
        return hidden_pairs(positions, self._causal, self._forbidden, queries, window)

    def _hidden_block(self, layer: int, queries: NDArray[np.int64], first: int, end: int) -> Pairs:
        """``hidden_pairs`` for queries and keys in [first, end), ``first`` 0 if edits hide any."""
        forbidden = None if self._forbidden is None else self._forbidden[:, :end]
        keys, window = np.arange(first, end), self._window(layer)
        return hidden_pairs(keys, self._causal, forbidden, queries - first, window)

    def _window(self, layer: int | None) -> int | None:
        return None if layer is None else self._config.window(layer)

    def stage(self, key: str, layer: int, head: int | None = None) -> Array:
        """A stage of ``FROM_HEADS`` or ``FROM_STREAM``, as ``STAGES`` declares; or one head's."""
        if key in FROM_STREAM:
            return self._stream(key, layer)
        return self._attention_stage(key, layer, head)

    def weights_of_queries(self, layer: int, queries: slice) -> Array:
        """Some queries' weights over all keys, in every head: (nh, r, T); not cached."""
        q, k, v = (self._captured[name, layer] for name in "qkv")
        hidden, divisor = self.hidden_pairs(layer, queries), self._config.layer_divisor(layer)
        stages = attention_stages([q[:, :, queries], k, v], divisor, hidden, ("weights",))
        weights: Array = stages["weights"][0]
        return weights

    def weighted_head_outputs(self, layer: int, shares: Numbers) -> Numbers:
        """Every head's outputs, each times its query's share (T,), summed: (nh, hs).

        shares · (weights · V) = (shares · weights) · V, which computes no query's output.
        """
        tokens = np.flatnonzero(shares)
        v, (q, keys) = self._captured["v", layer][0], self._scale_queries(layer, tokens)
        nonzero = torch.tensor(shares[tokens].astype(np.float32))
        groups = [self._config.group_of(head) for head in range(len(q))]
        mixed = torch.zeros(len(q), self._n_tokens)
        one_product = _BLOCK * keys[0].numel()  # too small to be worth a second thread
        with torch.inference_mode(), threads(one_product):
            for block in self._blocks(layer, tokens):
                for head, group in enumerate(groups):
                    weights = block.weights(q[head], keys[group])
                    mixed[head, : block.seen] += nonzero[block.queries] @ weights
            values = torch.tensor(v)[groups]  # (nh, T, hs)
            outputs: Numbers = (mixed[:, None] @ values)[:, 0].double().numpy()
        return outputs

    def weights_of_heads(self, layer: int) -> Iterator[Array]:
        """Yield every head's weights (T, T); each overwrites the one before."""
        tokens = np.arange(self._n_tokens)
        (q, keys), blocks = self._scale_queries(layer, tokens), self._blocks(layer, tokens)
        whole = torch.zeros(self._n_tokens, self._n_tokens)
        for head in range(len(q)):
            of_group = keys[self._config.group_of(head)]  # (hs, T)
            with torch.inference_mode(), threads(_BLOCK * keys[0].numel()):
                for block in blocks:
                    whole[block.queries, : block.seen] = block.weights(q[head], of_group)
            yield to_numpy(whole)

    def _scale_queries(self, layer: int, queries: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Some tokens' q, scaled for scores, and every kᵀ: (nh, P, hs), (nkv, hs, T)."""
        q, k = (self._captured[name, layer][0] for name in "qk")
        scale = 1 / (math.sqrt(q.shape[-1]) * self._config.layer_divisor(layer))
        return torch.tensor(q[:, queries] * scale), torch.tensor(k).mT

    def _blocks(self, layer: int, tokens: NDArray[np.int64]) -> list[_Block]:
        """Split the queries of these tokens into blocks, each with the keys that it may see."""
        blocks = []
        for start in range(0, len(tokens), _BLOCK):
            queries = slice(start, start + _BLOCK)
            first, last = (int(tokens[queries][end]) for end in (0, -1))
            seen = last + 1 if self._causal else self._n_tokens
            plain = self._causal and self._forbidden is None and self._window(layer) is None
            before = first if plain else 0
            hidden = torch.from_numpy(self._hidden_block(layer, tokens[queries], before, seen))
            blocks.append(_Block(queries, before, seen, hidden))
        return blocks

    def _attention_stage(self, key: str, layer: int, head: int | None) -> Array:
        """Compute one stage of all heads, or all stages of one head."""
        keys = FROM_HEADS if head is not None else (key,)
        last = self._last.get(keys)
        if last is None or last.layer_and_head != (layer, head):
            qkv = [self._captured[name, layer] for name in "qkv"]
            if head is not None:
                own = (head, *[self._config.group_of(head)] * 2)
                qkv = [x[:, n : n + 1] for x, n in zip(qkv, own, strict=True)]
            divisor = self._config.layer_divisor(layer)
            stages = attention_stages(qkv, divisor, self.hidden_pairs(layer), keys)
            self._last[keys] = last = Last((layer, head), stages)
        return last.stages[key] if head is None else last.stages[key][0, 0]

    def _stream(self, key: str, layer: int) -> Array:
        """The stream after a part, summed in the run's order, so bit for bit the same."""
        x = self._captured["embedding", None].copy()
        for n in range(layer + 1):
            x += self._captured["attention_output", n]
            if n < layer or key == "residual_out":
                x += self._captured["mlp_output", n]
        x.flags.writeable = False
        return x

    @property
    def nbytes(self) -> int:
        """Bytes of the stages that are cached now."""
        cached = list(self._last.values())  # a copy: another thread may add a stage meanwhile
        stages = [array for last in cached for array in last.stages.values()]
        return sum(array.nbytes for array in stages)


def attention_stages(
    qkv: Sequence[Array], divisor: int, hidden: Pairs, keys: Sequence[str]
) -> Mapping[str, Array]:
    """The model's ``Attend``, step by step, for q (B, nh, T, hs), k and v (B, nkv, T, hs).

    ``divisor`` is ``config.layer_divisor``; ``hidden`` (T, T) is True where a key is hidden
    from a query. Returns the stages ``keys``, of ``FROM_HEADS``, as ``STAGES`` declares them.
    Computes one head at a time: its matrices fit into a core's cache, and reuse the memory that
    the one before freed.
    """
    q, k, v = qkv
    if "head_output" not in keys:
        v = v[..., :0]  # only the output needs it
    n_head, n_queries, hs = q.shape[1:]
    attend, made, result = Attend(divisor).eval(), dict[str, Tensor](), dict[str, Tensor]()
    for key in keys:
        attend.get_submodule(key).register_forward_hook(
            lambda _module, _inputs, output, key=key: made.update({key: output})
        )
    with torch.inference_mode(), threads(2 * n_head * n_queries * k.shape[2] * hs):
        mask = torch.from_numpy(hidden)
        for head in range(n_head):
            group = head * k.shape[1] // n_head
            own = ((q, head), (k, group), (v, group))
            attend(*(torch.from_numpy(x[:, n : n + 1].copy()) for x, n in own), mask)
            for key, output in made.items():
                if head == 0:
                    result[key] = torch.empty(*q.shape[:2], *output.shape[2:])
                result[key][:, head] = output[:, 0]
    return {key: to_numpy(tensor) for key, tensor in result.items()}
