"""The architecture, read from the modules of a model that is loaded, with one run's shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from gpt2viz.model.checkpoint import Model, load_model
from gpt2viz.run.stages import STAGE, STAGES, module_names
from gpt2viz.run.trace import TensorRecord, Trace
from gpt2viz.run.tracer import trace
from gpt2viz.textbook.claims import Claim


@dataclass(frozen=True)
class Node:
    """One module without parts of its own. ``made`` is the tensor that it made, if it is named.

    ``name`` is the module's, such as "h.0.attn.c_attn", ``kind`` what it does; ``layer`` is None
    outside the layers.
    """

    name: str
    kind: str
    layer: int | None
    n_parameters: int
    made: TensorRecord | None


def nodes(model: Model, run: Trace, layer: int | None = None) -> list[Node]:
    """The model's modules in the order of the data; of the layers all, or only ``layer``."""
    made = {record.name: record for record in run.tensors}
    boxes = []
    for name, module in model.network.named_modules():
        inside = int(name.split(".")[1]) if name.startswith("h.") else None
        if any(module.children()) or (layer is not None and inside not in (None, layer)):
            continue
        count = sum(weights.numel() for weights in module.parameters())
        record = made.get(name)
        kind = record.operation if record else type(module).__name__
        boxes.append(Node(name, kind, inside, count, record))
    return boxes


#: The module that hands on what these stages' own made: dropout, which is off when a model reads.
_DROPOUT = {
    "weights": "attn.attend.dropout",
    "attention_output": "attn.resid_dropout",
    "mlp_output": "mlp.dropout",
}


def edges(layers: Sequence[int]) -> list[tuple[str, str]]:
    """(module, module that reads what it made), with these layers one after the other."""
    arrows = []
    for stage in STAGES:
        for before, layer in pairwise((None, *layers)) if stage.per_layer else [(None, layers[-1])]:
            start = ("embedding", None) if before is None else ("residual_out", before)
            sources = [start if key == "residual_in" else (key, layer) for key in stage.reads]
            own = stage.path(layer) if stage.key == "weights" else _end(stage.key, layer)
            arrows += [(_end(*source), own) for source in sources]
            if stage.key == "weights":
                arrows.append((own, _end(stage.key, layer)))
    return arrows


def _end(key: str, layer: int | None) -> str:
    """The last module, which has no parts, that a stage comes out of."""
    return f"h.{layer}.{_DROPOUT[key]}" if key in _DROPOUT else STAGE[key].path(layer)


@lru_cache(maxsize=1)
def _bundled() -> tuple[Model, Trace]:
    model = load_model()
    return model, trace(model, "A crane ate fish")


def line_claims() -> list[Claim]:
    """E25, on the bundled model."""
    _, run = _bundled()
    known = sum(bool(record.line and record.code) for record in run.tensors)
    return [
        Claim("tensors of one run, and those whose line is known", "", [len(run.tensors), known])
    ]


def diagram_claims() -> list[Claim]:
    """E26, on the bundled model."""
    model, run = _bundled()
    boxes = nodes(model, run)
    shown = {node.name for node in boxes if node.made}
    parts = {name for name, _, _ in module_names(model.config.n_layer)} - shown
    whole = {f"h.{n}.{part}" for n in range(model.config.n_layer) for part in ("attn", "mlp")}
    total = sum(weights.numel() for weights in model.network.parameters())
    tied = model.network.lm_head.weight.numel() if model.config.tie_word_embeddings else 0
    return [
        Claim("every named tensor has its module in the diagram", "", str(parts == whole)),
        Claim(
            "its parameters, the tied matrix once, and the model's",
            "",
            [sum(node.n_parameters for node in boxes) - tied, total],
        ),
    ]
