"""The architecture, read from the modules of a loaded model, with the shapes of one run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from gpt2viz.model.checkpoint import Model, load_model
from gpt2viz.run.provenance import operation
from gpt2viz.run.stages import Stage, module_names
from gpt2viz.run.trace import TensorRecord, Trace
from gpt2viz.run.tracer import trace
from gpt2viz.textbook.claims import Claim


@dataclass(frozen=True)
class Node:
    """One module without submodules. ``made`` is its output in the run, if that is a named tensor.

    ``name`` is the module's, such as "h.0.attn.c_attn", and ``kind`` its operation.
    """

    name: str
    kind: str
    n_parameters: int
    made: TensorRecord | None


def nodes(model: Model, run: Trace, layer: int | None = None) -> list[Node]:
    """The model's modules in the order of execution; of all layers, or only of ``layer``."""
    made = {record.name: record for record in run.tensors}
    boxes = []
    for name, module in model.network.named_modules():
        number = re.match(r"\w+\.(\d+)\.", name)
        elsewhere = number and layer is not None and int(number[1]) != layer
        if any(module.children()) or elsewhere:
            continue
        count = sum(weights.numel() for weights in module.parameters())
        record = made.get(name)
        kind = record.operation if record else operation(module, type(module).__name__)
        boxes.append(Node(name, kind, count, record))
    return boxes


#: The dropout module after a stage's own; it does nothing outside training.
_DROPOUT = {
    "h.*.attn.attend.weights": "h.*.attn.attend.dropout",
    "layers.*.self_attn.attend.weights": "layers.*.self_attn.attend.dropout",
    "h.*.attn": "h.*.attn.resid_dropout",
    "h.*.mlp": "h.*.mlp.dropout",
}


def edges(layers: Sequence[int], graph: Mapping[str, Stage]) -> list[tuple[str, str]]:
    """(module, module that reads its output), for these layers of a model's graph in sequence."""
    arrows = []
    for stage in graph.values():
        for before, layer in pairwise((None, *layers)) if stage.per_layer else [(None, layers[-1])]:
            start = ("embedding", None) if before is None else ("residual_out", before)
            sources = [start if key == "residual_in" else (key, layer) for key in stage.reads]
            steps = [_module(module, layer) for module in _modules(stage)]
            arrows += [(_module(_modules(graph[key])[-1], at), steps[0]) for key, at in sources]
            arrows += pairwise(steps)
    return arrows


def _modules(stage: Stage) -> list[str]:
    """The modules without submodules that a stage runs, * being the layer's number."""
    if stage.module in ("h.*.attn", "h.*.mlp"):
        return [_DROPOUT[stage.module]]
    before, after = [], [_DROPOUT[stage.module]] if stage.module in _DROPOUT else []
    if stage.of_head and stage.reads == ("ln_1",):  # its product isn't a stage: this is its part
        before = [f"{stage.module.rpartition('.')[0]}.{stage.key[0]}_proj"]
    return [*before, stage.module, *after]


def _module(name: str, layer: int | None) -> str:
    return name.replace("*", str(layer))


@lru_cache(maxsize=1)
def _bundled_run() -> tuple[Model, Trace]:
    model = load_model()
    return model, trace(model, "A crane ate fish")


def line_claims() -> list[Claim]:
    """E25, on the bundled model."""
    _, run = _bundled_run()
    known = sum(bool(record.line and record.code) for record in run.tensors)
    return [
        Claim("tensors of one run, and those whose line is known", "", [len(run.tensors), known])
    ]


def diagram_claims() -> list[Claim]:
    """E26, on the bundled model."""
    model, run = _bundled_run()
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
