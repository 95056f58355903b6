"""The attention of any model in transformers, from what it really runs: sdpa, flash, eager.

Transformers looks up its attention function in a registry, with ``get_interface``. Within ``watch``
the same functions run, and the q, k and mask of each call are kept. Weights are computed from
these on demand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from gpt2viz.arrays import Array
from gpt2viz.errors import AttentionError
from gpt2viz.labels import pluralize
from gpt2viz.run.compat import never_written

#: Scores that are computed at a time.
BLOCK = 2**24
#: Tensors of fewer bytes are copied into blocks of this size, separate from other memory.
_LARGE = 2**26
#: Options of attention functions; only flash's need the last, others have it in the mask.
_OPTIONS = ("scaling", "softcap", "position_bias", "s_aux", "sinks", "sliding_window")
#: A score below this is masked, whatever number the mask adds in its precision.
_HIDDEN = -3e4
_CHOICES: dict[str, Any] = {"part": "", "call": -1, "beams": None}
_BEAMS = "Beams go from text to text between these steps: give beams=output.beam_indices."
_MIXED = "Another text was read between these steps: watch one text, or one batch, at a time."
#: The runs that are watched now.
_RUNS: list[Watched] = []
_LOCK = Lock()


@contextmanager
def watch(
    model: Any,
    *,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    max_bytes: int = 1_000_000_000,
) -> Iterator[Watched]:
    """Keep the q, k and masks of a transformers model's attention while the block runs it.

    ``model``, or a pipeline, may use sdpa, flash, flex or eager attention, on any device, in a call
    or in ``generate``: its own functions run unchanged. Its queries and keys are kept in their own
    precision, only those of ``layers`` and ``heads`` where these are given, in at most
    ``max_bytes``. Leaving the block restores the registry. Raises ``AttentionError`` for a
    model that looks up no attention in the registry, and for transformers before 5.
    """
    network = model if isinstance(model, nn.Module) else getattr(model, "model", None)
    paths, interface = _watchable(network, type(model).__name__)
    pairs = ("layers", layers), ("heads", heads)
    only = {kind: tuple(numbers) for kind, numbers in pairs if numbers is not None}
    run = Watched(paths, only, max_bytes)
    run.notes += [f"Of the model's {kind} only {list(ns)} are kept." for kind, ns in only.items()]
    with _LOCK:
        if not _RUNS:
            interface.get_interface = _recording(interface.get_interface)
        _RUNS.append(run)
    try:
        yield run
    finally:
        with _LOCK:
            _RUNS.remove(run)
            if not _RUNS:
                interface.get_interface = interface.get_interface.__wrapped__


def _watchable(network: Any, name: str) -> tuple[dict[nn.Module, str], Any]:
    """The paths of a model's modules, and the class of the registry of its attention functions."""
    paths = {module: path for path, module in getattr(network, "named_modules", dict)()}
    files = {sys.modules.get(type(module).__module__) for module in paths}
    interface = getattr(sys.modules.get("transformers.modeling_utils"), "AttentionInterface", None)
    registered = any(hasattr(file, "ALL_ATTENTION_FUNCTIONS") for file in files)
    if not (registered and hasattr(interface, "get_interface")):
        raise AttentionError(
            f"{name} asks no registry of transformers 5 for its attention, so it can't be watched: "
            "call it with attn_implementation='eager' and output_attentions=True, and show that."
        )
    return paths, interface


def _recording(get_interface: Callable[..., Any]) -> Callable[..., Any]:
    # Not on import: it loads PyTorch's compiler, which takes two seconds in each process.
    attend = torch.compiler.disable(_attend)  # type: ignore[no-untyped-call]

    def get(registry: Any, name: str, default: Any) -> Callable[..., Any]:
        return partial(attend, get_interface(registry, name, default), name or "")

    return wraps(get_interface)(get)


def _attend(attend: Callable[..., Any], name: str, *args: Any, **options: Any) -> Any:
    """Call an attention function, and pass its arguments to every open watch."""
    output = attend(*args, **options)
    for run in tuple(_RUNS):
        run._keep(name, *args, **options)
    return output


class _Step(NamedTuple):
    """The arguments of one call: T queries, (B, nh, T, hs), for ``n_keys`` keys from ``first`` on.

    ``heads`` are their numbers in the model. ``keys`` are the new ones, or None if all were given
    before; ``before`` is the key before them, which shows whether a step follows the last one.
    """

    heads: list[int]
    query: Tensor
    keys: Tensor | None
    before: Tensor | None
    first: int
    n_keys: int
    mask: Any
    causal: bool
    options: dict[str, Any]

    def scores(self, products: Tensor, rows: slice, texts: Tensor, heads: Tensor) -> Tensor:
        """Softmax's input for some rows of queries, from their ``products`` with the keys."""

        def part(values: Tensor) -> Tensor:
            for axis, chosen in enumerate((texts, heads)):
                values = values if values.shape[axis] == 1 else values.index_select(axis, chosen)
            values = values[..., : self.n_keys]
            return values if values.shape[-2] == 1 else values[..., rows, :]

        scores: Tensor = products * self.options.get("scaling", self.query.shape[-1] ** -0.5)
        if cap := self.options.get("softcap"):
            scores = torch.tanh(scores / cap) * cap
        if "position_bias" in self.options:
            scores = scores + part(self.options["position_bias"]).float()
        if not isinstance(self.mask, Tensor) or self.mask.dim() == 2:
            return scores.masked_fill(~self._visible(rows, texts, heads), -torch.inf)
        mask = part(self.mask)
        if mask.dtype == torch.bool:
            return scores.masked_fill(~mask, -torch.inf)
        return scores + mask.float()

    def _visible(self, rows: slice, texts: Tensor, heads: Tensor) -> Tensor:
        """The keys that rows of queries may see, for any mask but one of four axes."""
        key = torch.arange(self.n_keys, device=texts.device)
        query = torch.arange(rows.start, rows.stop, device=texts.device)[:, None]
        if self.mask is not None and not isinstance(self.mask, Tensor):  # flex attention's own
            pair = texts[:, None, None, None], heads[:, None, None], query, key
            return torch.as_tensor(self.mask.mask_mod(*pair))
        far = query + (self.n_keys - self.query.shape[2]) - key
        visible = far >= 0 if self.causal else torch.ones_like(far, dtype=torch.bool)
        if window := self.options.get("sliding_window"):
            visible = visible & (far.abs() < window)
        if self.mask is None:
            return visible
        return visible & self.mask[texts][:, None, None, : self.n_keys].bool()  # flash's: padding

    def weights(self, scores: Tensor, heads: Tensor) -> Tensor:
        """Softmax of the scores and of the sinks beside them; 0 for queries that see no key."""
        beside = self.options.get("s_aux", self.options.get("sinks"))
        if beside is None:
            return scores.softmax(-1).nan_to_num(0)
        sinks = (beside[None, :, None, None] if beside.dim() == 1 else beside)[:, heads].float()
        both = torch.cat([scores, sinks.expand(*scores.shape[:-1], -1)], -1)
        return both.softmax(-1)[..., : scores.shape[-1]]


@dataclass(eq=False)
class _Call:
    """A layer's consecutive steps: each continues where the one before ended.

    ``size`` is the number of keys that the last step got: a cache of fixed size has more than were
    computed. ``last`` is the last key, (B, nh, 1, hs).
    """

    steps: list[_Step] = field(default_factory=list)
    size: int = 0
    last: Tensor | None = None
    nbytes: int = 0

    def follows(self, T: int, key: Tensor) -> tuple[int, int] | None:
        """The first key of T further queries, and where the new keys begin in ``key``.

        None if they begin another call.
        """
        S = key.shape[2]
        if self.last is None or key.shape[:2] != self.last.shape[:2] or S <= T:
            return None
        end = self.steps[-1].first + self.steps[-1].n_keys
        if S == end + T or (S == self.size and end + T <= S):
            return 0, end  # the cache has grown, or is one of fixed size
        if T == 1 and S == end and _is_subset(key[:, :, -1:], self.last):
            return 0, S  # the keys are another text's
        if S < end + T and _is_subset(key[:, :, S - T - 1 : S - T], self.last):
            return end + T - S, S - T  # a window slides
        return None

    def numbers(self, stage: str, of: list[int], beams: Any) -> Tensor:
        """A stage's numbers in the model's heads ``of``, for all steps together."""
        of_step, device = self.steps[0].heads, self.steps[0].query.device
        heads = torch.tensor(of, device=device)
        inner = torch.tensor([of_step.index(head) for head in of], device=device)
        ways = self.ways(beams)
        chosen = [(step, way.clamp(min=0)) for step, way in zip(self.steps, ways, strict=False)]
        keys = torch.cat([step.keys[texts] for step, texts in chosen if step.keys is not None], 2)
        keys = keys[:, inner * keys.shape[1] // self.steps[0].query.shape[1]].float()
        queries = torch.cat([step.query[texts] for step, texts in chosen], 2)[:, inner].float()
        if stage in ("q", "k"):
            return queries if stage == "q" else keys
        nothing = 0.0 if stage == "weights" else -torch.inf
        B, nh, T, S = *queries.shape[:3], keys.shape[2]
        numbers = torch.full((B, nh, T, S), nothing)
        end = 0
        for (step, texts), way in zip(chosen, ways, strict=True):
            start, end = end, end + step.query.shape[2]
            columns = slice(step.first, step.first + step.n_keys)
            given, most = keys[:, :, columns].mT, max(1, BLOCK // (B * nh * step.n_keys))
            for row in range(start, end, most):
                rows = slice(row, min(row + most, end))
                part = slice(rows.start - start, rows.stop - start)
                made = step.scores(queries[:, :, rows] @ given, part, texts, heads)
                if stage == "weights":
                    made = step.weights(made, heads)
                made[made < _HIDDEN] = -torch.inf
                made[way < 0] = nothing  # the text has ended
                numbers[:, :, rows, columns] = made.cpu()
        return numbers

    def ways(self, beams: Any) -> list[Tensor]:
        """The texts of its batch that each step's rows belong to: all, or as ``beam_indices`` says.

        Raises ``AttentionError`` if texts change between the steps.
        """
        batch = self.steps[0].query
        ways = [torch.arange(len(batch), device=batch.device)] * len(self.steps)
        if beams is not None:
            given = torch.as_tensor(beams, device=batch.device)
            if given.dim() != 2 or given.shape[1] > len(ways) or int(given.max()) >= len(batch):
                raise AttentionError("These beam_indices are of another generate().")
            ways = list(given.T)
        last, of_last = batch[:, :, :0], ways[0]
        for step, way in zip(self.steps, ways, strict=False):
            on = way >= 0
            if step.before is not None:
                old, new = last[of_last[on]], step.before[way[on]]
                if not torch.equal(old, new):
                    raise AttentionError(_BEAMS if _is_subset(new, last) else _MIXED)
            if step.keys is not None:
                last, of_last = step.keys[:, :, -1:], way
        return ways


@dataclass(eq=False, repr=False)
class Watched:
    """The arguments of a watched model's attention functions, and the weights computed from them.

    A model has one part or several, such as encoder, decoder and cross-attention. The layers of
    each are counted from 0, in the order in which they first attend. ``notes`` are sentences on
    what was left out. It holds ``nbytes``, and is ``full`` once another step would have taken
    more than ``max_bytes``.
    """

    _paths: dict[nn.Module, str]
    _only: dict[str, tuple[int, ...]]
    max_bytes: int
    nbytes: int = 0
    full: bool = False
    notes: list[str] = field(default_factory=list)
    _parts: dict[str, dict[nn.Module, int]] = field(default_factory=dict)
    _calls: dict[nn.Module, list[_Call]] = field(default_factory=dict)
    _block: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.uint8))
    _masks: WeakTensorKeyDictionary = field(default_factory=WeakTensorKeyDictionary)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that attended: the paths of their modules, with N for each number."""
        return tuple(self._parts)

    def layers(self, part: str = "") -> list[int]:
        """The kept layers of a ``part``, given by its name or any piece of that."""
        return sorted(self._calls_of(part))

    def weights(self, layer: int, head: int | None = None, **choice: Any) -> Array:
        """Attention weights, (B, nh, T, S), or (B, T, S) of one head, computed now in float32.

        ``choice`` takes ``part``, by its name or a piece of it; ``call``, by default the layer's
        last one, -1; and ``beams``, the ``beam_indices`` that ``generate`` returned. Keys that a
        query isn't given have weight 0. Raises ``AttentionError`` for a choice that doesn't exist.
        """
        return self._compute("weights", layer, head, **choice)

    def scores(self, layer: int, head: int | None = None, **choice: Any) -> Array:
        """Softmax's input, with scale, softcap, bias and mask; −∞ where keys can't be seen."""
        return self._compute("scores", layer, head, **choice)

    def q(self, layer: int, head: int | None = None, **choice: Any) -> Array:
        """The queries that the attention function was given: (B, nh, T, hs), or (B, T, hs)."""
        return self._compute("q", layer, head, **choice)

    def k(self, layer: int, head: int | None = None, **choice: Any) -> Array:
        """The keys that each head was given: (B, nh, S, hs), or (B, S, hs) of one."""
        return self._compute("k", layer, head, **choice)

    def _compute(self, stage: str, layer: int, head: int | None, **choice: Any) -> Array:
        part, call, beams = (choice.pop(name, default) for name, default in _CHOICES.items())
        if choice:
            raise AttentionError(f"{next(iter(choice))}= isn't one of {', '.join(_CHOICES)}.")
        every = self._calls_of(part)
        if layer not in every:
            sentence = f"There is no layer {layer!r:.20} here, only {sorted(every)}."
            raise AttentionError(" ".join([sentence, *self.notes]))
        calls = every[layer]
        if not -len(calls) <= call < len(calls):
            raise AttentionError(f"Layer {layer} has {pluralize(len(calls), 'calls')}, not {call}.")
        chosen = calls[call]
        if beams is None and chosen.steps[-1].keys is None:  # only its own text's keys would tell
            for others in self._calls.values():
                others[-1].ways(None)
        heads = chosen.steps[0].heads
        if head not in (None, *heads):
            raise AttentionError(f"There is no head {head!r:.20} here, only {heads}.")
        with torch.no_grad():
            of_layer = chosen.numbers(stage, heads if head is None else [head], beams)
        numbers: Array = of_layer.cpu().numpy()
        return numbers if head is None else numbers[:, 0]

    def _calls_of(self, part: str) -> dict[int, list[_Call]]:
        """The calls of a part's layers."""
        names = [part] if part in self._parts else [name for name in self._parts if part in name]
        if not names and not self._parts:
            raise AttentionError("No attention of this model ran here, or it was compiled.")
        if len(names) != 1:
            choices = " or ".join(f"part={name!r}" for name in names or self._parts)
            raise AttentionError(f"Choose a part of this model: {choices}.")
        layers = self._parts[names[0]].items()
        calls = {n: self._calls[module] for module, n in layers if self._calls.get(module)}
        if not calls:
            raise AttentionError(" ".join(["No layer of this part is kept.", *self.notes]))
        return calls

    def _keep(self, name: str, *arguments: Any, **options: Any) -> None:
        """Keep what the attention function of this ``name`` was given, if its module is ours."""
        names = ("module", "query", "key", "value", "attention_mask")
        options |= zip(names, arguments, strict=False)
        path = self._paths.get(module := options["module"])
        if path is None or options["query"].dim() != 4:
            return
        layers = self._parts.setdefault(re.sub(r"(?<![^.])\d+(?![^.])", "N", path), {})
        n = layers.setdefault(module, len(layers))
        if self.full or n not in self._only.get("layers", (n,)):
            return
        calls = self._calls.setdefault(module, [])
        step, follows = self._step(name, options, calls)
        nbytes = sum(part.nbytes for part in step[1:4] if part is not None)
        for shared in (step.mask, step.options.get("position_bias")):
            if isinstance(shared, Tensor) and shared not in self._masks:
                self._masks[shared] = True
                nbytes += shared.untyped_storage().nbytes()
        note = f"max_bytes={self.max_bytes:,} is reached"
        while self.nbytes + nbytes > self.max_bytes and len(calls) > follows:
            self.nbytes -= calls.pop(0).nbytes
            earlier = f"{note}, so earlier calls are let go."
            self.notes += [] if earlier in self.notes else [earlier]
        if self.nbytes + nbytes > self.max_bytes:
            self.full = True
            for others in self._calls.values() if follows else ():  # all end at the same token
                del others[-1].steps[len(calls[-1].steps) :]
            rest = "so the rest is left out: choose layers=, heads= or a larger one."
            self.notes.append(f"{note} in layer {n}, {rest}")
            return
        calls += [] if follows else [_Call()]
        call, self.nbytes = calls[-1], self.nbytes + nbytes
        call.steps.append(step)
        call.size, call.nbytes = options["key"].shape[2], call.nbytes + nbytes
        call.last = call.last if step.keys is None else step.keys[:, :, -1:]

    def _pack(self, values: Tensor) -> Tensor:
        """Copy small values into one large block: between a run's freed tensors they would fragment
        memory. Larger ones are copied only if they are part of a larger tensor, or were changed."""
        nbytes, values = values.nbytes, values.detach()
        if nbytes >= _LARGE or not values.is_cpu:
            tight = values.untyped_storage().nbytes() <= nbytes
            return values if tight and never_written(values) else values.clone()
        if len(self._block) < nbytes:
            self._block = torch.empty(_LARGE, dtype=torch.uint8)
        part, self._block = self._block[:nbytes], self._block[-(-nbytes // 64) * 64 :]
        return part.view(values.dtype).view(values.shape).copy_(values)

    def _step(self, name: str, options: dict[str, Any], calls: list[_Call]) -> tuple[_Step, bool]:
        """Make a step from a function's arguments, and tell whether it follows the last call's."""
        query, key, mask = options["query"], options["key"], options.get("attention_mask")
        heads = list(range(query.shape[1]))
        if "heads" in self._only:
            heads = [head for head in self._only["heads"] if head in heads]
            key = key[:, [head * key.shape[1] // query.shape[1] for head in heads]]
            query = query[:, heads]
        given, own = options.get("is_causal"), getattr(options["module"], "is_causal", True)
        inside = name not in ("eager", "flex_attention") and (mask is None or mask.dim() == 2)
        causal = inside and bool(own if given is None else given)  # by the function, not by a mask
        T, size, follows = query.shape[2], key.shape[2], None
        if T < size and (T > 1 or not calls) and _fills(mask, causal, T):
            key = key[:, :, :T]  # the rest of a cache of fixed size is empty
        elif calls:
            follows = calls[-1].follows(T, key)
        first, new = follows or (0, 0)
        keys, before = None, None
        if new < size:
            keys = self._pack(key[:, :, max(0, new - 1) : new + T] if new else key)
        if new and keys is not None:
            keys, before = keys[:, :, 1:], keys[:, :, :1]
        n_keys = min(new + T, size) if new else key.shape[2]
        read = _OPTIONS if "flash" in name else _OPTIONS[:-1]
        rest = {part: options[part] for part in read if options.get(part) is not None}
        step = _Step(heads, self._pack(query), keys, before, first, n_keys, mask, causal, rest)
        return step, follows is not None


def _fills(mask: Any, causal: bool, T: int) -> bool:
    """True where T queries fill an empty cache of fixed size: no key after theirs is seen."""
    if mask is None:
        return causal and T > 1
    if not isinstance(mask, Tensor) or mask.dim() != 4:
        return False
    visible = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    visible = visible.flatten(0, 1).any(0)
    return not bool(visible[:, T:].any()) and (T == 1 or not bool(visible[0, T - 1]))


def _is_subset(values: Tensor, others: Tensor) -> bool:
    """True if each text's values are those of some text among the others."""
    equal = values[:, None] == others[None]
    return bool(equal.flatten(2).all(-1).any(1).all())
