"""Every tensor of a run as a row, for tables and the command line, without pandas."""

from __future__ import annotations

from typing import Any

from gpt2viz.run.trace import Trace


def shape_rows(trace: Trace) -> list[dict[str, Any]]:
    """Every tensor of the run in the order in which it was made, one row each.

    ``layer`` is None outside the layers. If ``shared``, the bytes are the row before's: see
    ``gpt2viz.TensorRecord``.
    """
    return [
        {
            "step": n,
            "layer": record.layer,
            "tensor": record.name,
            "key": record.key,
            "axes": f"({', '.join(record.axes)})",
            "shape": f"({', '.join(map(str, record.shape))})",
            "dtype": record.dtype,
            "bytes": record.nbytes,
            "shared": record.shared,
            "parameters": record.n_parameters,
            "operation": record.operation,
            "file": record.file,
            "line": record.line,
            "code": record.code,
            "TransformerLens": trace.graph[record.key].in_transformer_lens(record.layer),
        }
        for n, record in enumerate(trace.tensors)
    ]
