"""A trace as one file of arrays, ``.npz`` or ``.safetensors``, which NumPy and others read."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from gpt2viz import files
from gpt2viz.errors import ExportError
from gpt2viz.export.about import about
from gpt2viz.export.kinds import TRACE_KINDS, TraceKind
from gpt2viz.run.captured import array_name
from gpt2viz.run.stages import STAGES
from gpt2viz.run.trace import Trace


def save_trace(trace: Trace, path: str | Path) -> Path:
    """Write a trace to ``path``, whose ending says how: ``.npz`` or ``.safetensors``.

    See ``trace_bytes`` for what is in it; ``gpt2viz.load_trace`` reads it. Raises ``ExportError``
    for another ending, and where the file can't be written.
    """
    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind not in TRACE_KINDS:
        raise ExportError(f"{path.name}: a trace is saved as .npz or .safetensors.")
    files.save(path, trace_bytes(trace, kind))
    return path


def trace_bytes(trace: Trace, kind: TraceKind) -> bytes:
    """A trace as the content of a file.

    ``arrays`` says which arrays it holds. What the run was is in the metadata: in safetensors the
    header's, each value as text, in npz a text array ``about`` with the same as one JSON object.
    Nothing in either file can run code.
    """
    found, said = arrays(trace), metadata(trace)
    if kind == "safetensors":
        return _in_order(save(found, said))
    file = io.BytesIO()
    np.savez(file, about=np.array(json.dumps(said)), **found)  # type: ignore[arg-type]
    return file.getvalue()


def _in_order(file: bytes) -> bytes:
    """A safetensors file with its metadata in order: the library writes them in any.

    The header is the JSON object that follows its own length (8 bytes, little-endian); places of
    tensors count from its end.
    """
    length = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    written = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    written += b" " * (-len(written) % 8)  # so that the numbers begin at a multiple of 8
    return len(written).to_bytes(8, "little") + written + file[8 + length :]


def arrays(trace: Trace) -> dict[str, NDArray[np.generic]]:
    """Every array that a trace holds, by name: ``weights.3`` is layer 3's, ``embedding`` has none.

    Shapes are those of ``gpt2viz.STAGES``, in float32. Besides: ``token_ids`` (T,) int64,
    ``next_token_probabilities`` (B, n_vocab), ``forbidden`` (T, T) where edits hid keys, and
    ``patch_from`` (T,), the ids of the text that patches took pieces from. Of a long text the
    stages that follow from others are left out; ``metadata`` names them.
    """
    found: dict[str, NDArray[np.generic]] = {
        array_name(place): np.ascontiguousarray(array) for place, array in trace.captured.items()
    }
    found["token_ids"] = np.array(trace.token_ids, np.int64)
    found["next_token_probabilities"] = np.ascontiguousarray(trace.next_token_probabilities)
    if trace.forbidden is not None:
        found["forbidden"] = np.ascontiguousarray(trace.forbidden)
    if trace.patch_from:
        found["patch_from"] = np.array(trace.patch_from, np.int64)
    return found


def metadata(trace: Trace) -> dict[str, str]:
    """What the run was, as names and texts: all of ``About``, and tokens and sizes as JSON.

    ``token_bytes`` are each token's bytes in hex; ``left_out`` the stages that are not in the
    file because they follow from q, k and v, or from what was added to the stream.
    """
    kept = {key for key, _ in trace.captured}
    said = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in asdict(about(trace, "trace")).items()
        if key not in ("layer", "head")
    }
    return said | {
        "tokens": json.dumps(trace.tokens),
        "token_bytes": json.dumps([part.hex() for part in trace.token_bytes]),
        "config": json.dumps(asdict(trace.config)),
        "left_out": json.dumps([s.key for s in STAGES if s.kept and s.key not in kept]),
    }
