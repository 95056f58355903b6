"""Run a model once and keep what happened inside: the only module that registers hooks."""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from gpt2viz import model as model_source
from gpt2viz.checkpoint import Model
from gpt2viz.errors import ContextError, TextError
from gpt2viz.model import GPT2, Attend
from gpt2viz.stages import STAGES, Stage
from gpt2viz.traces import Array, TensorRecord, Trace

#: Up to this many bytes of (T, T) matrices are captured; beyond, they are derived on demand.
EXPLICIT_BYTES = 64 * 2**20

# Hooks belong to the module, not to the thread: two runs of one model at a time would each
# write into the other's trace, without any error. So runs take turns.
_TURN = threading.Lock()

#: Up to this many multiplications a run stays on one thread: when another program keeps a core
#: busy, two threads wait for each other a hundred times longer than a small model computes.
ONE_THREAD = 10**9

Hook = Callable[[nn.Module, Any, Tensor], None]


def trace(
    model: Model, text: str | Sequence[int], causal: bool = True, *, explicit: bool | None = None
) -> Trace:
    """Run ``model`` on a text, or on a sequence of token ids, and keep every stage.

    ``causal=False`` lifts the mask: every token sees every other, which the model never met in
    training. ``explicit`` makes scores and weights in the run itself (True) or derives them
    later from its q, k and v with the same code (False); by default it depends on their size.

    Raises ``TextError`` for text without tokens or ids outside the vocabulary, and
    ``ContextError`` for more tokens than the model has positions. Safe for many threads.
    """
    ids = _token_ids(model, text)
    config = model.config
    if explicit is None:
        pairs = config.n_layer * config.n_head * len(ids) ** 2
        explicit = pairs * 4 * 4 <= EXPLICIT_BYTES  # four stages of float32
    network = model.network
    device = network.wte.weight.device
    n_weights = sum(weight.numel() for weight in network.parameters())
    small = n_weights * len(ids) <= ONE_THREAD
    with (
        _TURN,
        torch.inference_mode(),
        _threads(1 if small else torch.get_num_threads()),
        _recording(network) as (captured, records),
    ):
        batch = torch.tensor([ids], device=device)  # (B, T)
        logits = network(batch, causal=causal, explicit=explicit, last_only=True)  # (B, 1, n_vocab)
    token_bytes = tuple(model.tokenizer.token_bytes(i) for i in ids)
    return Trace(
        model_name=model.name,
        config=config,
        text=text if isinstance(text, str) else model.tokenizer.decode(ids),
        token_ids=tuple(ids),
        tokens=tuple(part.decode("utf-8", errors="backslashreplace") for part in token_bytes),
        token_bytes=token_bytes,
        causal=causal,
        explicit=explicit,
        next_token_probabilities=_array(logits[:, -1].softmax(dim=-1)),
        tensors=tuple(records),
        captured={place: _array(tensor) for place, tensor in captured.items()},
        unembedding=_array(network.lm_head.weight),
        derive=derive,
    )


def derive(q: Array, k: Array, v: Array, causal: bool) -> Mapping[str, Array]:
    """Scores to weights from q, k and v (B, nh, T, hs), by the model's own ``Attend``.

    Returns the (B, nh, T, T) stages ``scores``, ``scaled_scores``, ``masked_scores`` and
    ``weights`` by key.
    """
    attend = Attend().eval()
    found: dict[str, Array] = {}
    for key in ("scores", "scaled_scores", "masked_scores", "weights"):
        attend.get_submodule(key).register_forward_hook(_keep(found, key))
    with torch.inference_mode():
        attend(*(torch.from_numpy(x.copy()) for x in (q, k, v)), causal)
    return found


def _keep(found: dict[str, Array], key: str) -> Hook:
    return lambda _module, _inputs, output: found.__setitem__(key, _array(output))


def _token_ids(model: Model, text: str | Sequence[int]) -> list[int]:
    config = model.config
    ids = model.tokenizer.encode(text) if isinstance(text, str) else _whole_numbers(text)
    if not ids:
        raise TextError("There is no text yet. Type a word or a sentence.")
    wrong = [i for i in ids if not 0 <= i < config.vocab_size]
    if wrong:
        last = config.vocab_size - 1
        raise TextError(f"Token id {wrong[0]} is outside the vocabulary, 0 to {last}.")
    if len(ids) > config.n_positions:
        raise ContextError(len(ids), config.n_positions)
    return ids


def _whole_numbers(values: Sequence[int]) -> list[int]:
    try:
        return [operator.index(value) for value in values]
    except TypeError:
        raise TextError(f"Token ids are whole numbers, not {values!r:.80}") from None


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().to("cpu", torch.float32).numpy()
    array = array.view()
    array.flags.writeable = False
    return array


@contextmanager
def _threads(wanted: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


Captured = dict[tuple[str, int | None], Tensor]


@contextmanager
def _recording(network: GPT2) -> Iterator[tuple[Captured, list[TensorRecord]]]:
    """Hook every declared tensor for the time of one run, and leave no hook behind."""
    captured: Captured = {}
    records: list[TensorRecord] = []
    seen: set[int] = set()
    with ExitStack() as hooks:
        for name, stage, layer in _places(network.config.n_layer):
            module = network.get_submodule(name)
            hook = _recorder(name, stage, layer, captured, records, seen)
            hooks.callback(module.register_forward_hook(hook).remove)
        yield captured, records


@lru_cache(maxsize=16)
def _places(n_layer: int) -> tuple[tuple[str, Stage, int | None], ...]:
    """(module name, stage, layer) for every declared tensor of a model of ``n_layer`` layers."""
    return tuple(
        (stage.path.format(layer=layer), stage, layer)
        for stage in STAGES
        for layer in (range(n_layer) if stage.per_layer else (None,))
    )


def _recorder(
    name: str,
    stage: Stage,
    layer: int | None,
    captured: Captured,
    records: list[TensorRecord],
    seen: set[int],
) -> Hook:
    def hook(module: nn.Module, _inputs: Any, output: Tensor) -> None:
        line, code = _calling_line(sys._getframe(1))
        own = {id(p): p.numel() for p in module.parameters(recurse=False) if id(p) not in seen}
        seen.update(own)
        records.append(
            TensorRecord(
                name=name,
                key=stage.key,
                layer=layer,
                axes=stage.axes,
                shape=tuple(output.shape),
                dtype=str(output.dtype).removeprefix("torch."),
                nbytes=output.numel() * output.element_size(),
                n_parameters=sum(own.values()),
                operation=_operation(module, stage),
                line=line,
                code=code,
            )
        )
        if stage.kept:
            captured[stage.key, layer] = output

    return hook


def _operation(module: nn.Module, stage: Stage) -> str:
    """What the module does, from the module itself; a tap or a container tells its formula."""
    if isinstance(module, nn.Linear):
        return f"Linear {module.in_features} → {module.out_features}"
    if isinstance(module, nn.Embedding):
        return f"Embedding {module.num_embeddings} × {module.embedding_dim}"
    if isinstance(module, nn.LayerNorm):
        return f"LayerNorm {module.normalized_shape[0]}, ε = {module.eps:g}"
    if isinstance(module, nn.Identity | nn.Dropout) or next(module.children(), None) is not None:
        return stage.formula
    return type(module).__name__


def _calling_line(frame: FrameType | None) -> tuple[int, str]:
    """The line of ``model.py`` that is running, found on the call stack of a hook."""
    while frame is not None and frame.f_code.co_filename != model_source.__file__:
        frame = frame.f_back
    if frame is None:
        return 0, ""
    return frame.f_lineno, _source_lines()[frame.f_lineno - 1].split("#")[0].strip()


@lru_cache(maxsize=1)
def _source_lines() -> tuple[str, ...]:
    return tuple(Path(model_source.__file__).read_text(encoding="utf-8").splitlines())
