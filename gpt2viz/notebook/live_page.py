"""One file that runs a model in a browser: without installation, and without any request.

The page is that of ``gpt2viz.show`` with a sentence that can be edited. Its scripts are the app's
painters, and ``network.js`` and ``tokenizer.js``, which compute what this package's PyTorch does.

The weights are rounded (``model/packed.py``) and embedded as text: the file is in UTF-16,
where most characters hold sixteen bits.
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import replace
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from gpt2viz import files
from gpt2viz.analysis.scores import induction, weight_on
from gpt2viz.errors import CheckpointError, TooLargeError
from gpt2viz.labels import label
from gpt2viz.model.checkpoint import Model
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.packed import PackedWeights, pack, packed_bytes
from gpt2viz.notebook import show, view
from gpt2viz.pictures import canvas
from gpt2viz.pictures.from_trace import stage_panel
from gpt2viz.pictures.palette import DARK, LIGHT, Palette
from gpt2viz.pictures.picture import Heatmaps
from gpt2viz.run.stages import STAGE
from gpt2viz.run.trace import Trace
from gpt2viz.run.tracer import trace

#: The most bytes of packed weights: a page with more couldn't be mailed.
LARGEST = 60_000_000
#: The activations that ``network.js`` has, by the names of config.json.
ACTIVATIONS = dict.fromkeys(
    ("gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh"), "gelu_new"
) | {"relu": "relu", "silu": "silu", "swish": "silu", "tanh": "tanh"}
#: Sentences to choose from.
EXAMPLES = (
    "The cat sat on the mat and the cat sat",
    "A crane ate fish",
    "The little dog ran to the big red house because it was so very cold",
)
#: The rows of pictures inside a head: the stages of a row share one scale of colours.
ROWS = {
    "sources": ("q", "k", "v"),
    "scores": ("scores", "scaled_scores", "masked_scores"),
    "weights": ("weights",),
    "output": ("head_output",),
}
#: The largest height of such a row in pixels.
_TALL = 320
_STAGES = [key for row in ROWS.values() for key in row]


def encode_bytes(content: bytes) -> str:
    """Encode bytes as characters, two each; values that HTML would alter move to the next plane."""
    pairs = np.frombuffer(content + b"\0" * (len(content) % 2), "<u2").astype("<u4")
    plain = (pairs >= 0xA0) & (pairs < 0xFFFE) & (pairs >> 11 != 0xD800 >> 11)
    return np.where(plain, pairs, pairs + 0x10000).tobytes().decode("utf-32-le")


def write_page(model: Model, path: str | Path, text: str = EXAMPLES[0]) -> Path:
    """Write one HTML file that runs a GPT-2 in the browser that opens it, and return its path.

    It opens with ``text``. Raises ``CheckpointError`` for a model of another family, or with a
    tokenizer or an activation that the page's scripts don't have, ``TooLargeError`` if it would
    be too large, ``TextError`` for a text that the model can't read, and ``ExportError`` if the
    file can't be written.
    """
    path = Path(path)
    files.save(path, html(model, text))
    return path


def check(model: Model) -> None:
    """Raise ``CheckpointError`` if a page couldn't run a model, or would be too large."""
    _config(model)
    if not model.tokenizer.as_gpt2:
        raise CheckpointError(f"{model.name} cuts texts in another way than GPT-2.")
    if (estimate := packed_bytes(model.config)) > LARGEST:
        raise TooLargeError(
            f"{model.name} would take {estimate / 1e6:,.0f} MB in a page; at most "
            f"{LARGEST / 1e6:,.0f} MB are written."
        )


def html(model: Model, text: str = EXAMPLES[0]) -> bytes:
    """The file of ``write_page``. Raises the same ``CheckpointError``."""
    check(model)
    config, vocabulary = _config(model), _vocabulary(model)
    packed = pack(model, vocabulary["letters"])
    parts = dict(packed.parts) | vocabulary.pop("parts")
    run = trace(model, model.tokenizer.encode(text))  # as the page reads what is typed
    attention = show.show(run, head=_copying(run)).about
    about = {
        "config": config,
        "sizes": packed.sizes,
        "lengths": {name: len(part) for name, part in parts.items()},
        "attention": {name: value for name, value in attention.items() if name != "layers"},
        "rows": {name: _rows(run, colors) for name, colors in (("light", LIGHT), ("dark", DARK))},
        "sum": {name: _sum(colors) for name, colors in (("light", LIGHT), ("dark", DARK))},
        "masked": [key for key in _STAGES if STAGE[key].masked],
        "ofPairs": [key for key in _STAGES if STAGE[key].of_pairs],
        **vocabulary,
    }
    tiles = files.elements("tiles")
    made = view.render_page(
        "How a GPT-2 reads a sentence",
        _notes(model, packed),
        about,
        {f'data-part="{name}"': encode_bytes(part) for name, part in parts.items()},
        view.PAINTERS | {"sum": "written_sum", "start": "live"},
        "start(document, { map, tiles, lines, attention, sum })",
        above=Template(files.asset("live_above.html")).substitute(
            config,
            text=escape(text),
            examples="".join(f"<option>{escape(example)}</option>\n" for example in EXAMPLES),
        ),
        below=Template(files.asset("live_below.html")).substitute(
            tiles_html=tiles, sum_html=files.elements("written_sum")
        ),
        style=files.asset("live.css"),
    )
    return made.encode("utf-16")


def _copying(run: Trace) -> tuple[int, int] | None:
    """The layer and head that copy most in a text that repeats itself; None in any other."""
    targets = induction(run.token_ids)
    if not targets.any():
        return None
    of_layers = [weight_on(run.stage("weights", n)[0], targets) for n in range(run.config.n_layer)]
    layer, head = np.unravel_index(np.argmax(of_layers), np.shape(of_layers))
    return int(layer), int(head)


def _config(model: Model) -> dict[str, Any]:
    """The sizes that ``network.js`` reads. Raises ``CheckpointError`` if it can't run them."""
    config = model.config
    if not isinstance(config, GPT2Config):
        raise CheckpointError(f"{model.name} isn't a GPT-2, the only model that a page runs.")
    if config.activation_function not in ACTIVATIONS:
        raise CheckpointError(
            f"{model.name} has the activation {config.activation_function}, which a page lacks."
        )
    root = math.sqrt(config.n_embd // config.n_head)
    return {
        "n_layer": config.n_layer,
        "n_head": config.n_head,
        "n_embd": config.n_embd,
        "n_positions": config.n_positions,
        "epsilon": config.layer_norm_epsilon,
        "activation": ACTIVATIONS[config.activation_function],
        "divisors": [root * config.layer_divisor(n) for n in range(config.n_layer)],
    }


def _vocabulary(model: Model) -> dict[str, Any]:
    """The vocabulary: the ids of the 256 bytes, merges as ids, and every token's label."""
    tokenizer = model.tokenizer
    tokens = [tokenizer.token_bytes(i) for i in range(tokenizer.n_vocab)]
    ids = {token: i for i, token in reversed(list(enumerate(tokens)))}
    pairs = sorted(tokenizer.merges, key=tokenizer.merges.__getitem__)
    merges = [(ids[left], ids[right], ids[left + right]) for left, right in pairs]
    names = json.dumps(list(map(label, tokens))).encode()
    return {
        "letters": [ids[bytes([byte])] for byte in range(256)],
        "parts": {
            "labels": zlib.compress(names, 9),
            "merges": zlib.compress(np.array(merges, "<i4").tobytes(), 9),
        },
    }


def _rows(run: Trace, colors: Palette) -> dict[str, dict[str, Any]]:
    """The headers of the pictures inside a head, for one token; a script fills them in."""
    headers = {}
    for name, keys in ROWS.items():
        stages = [STAGE[key] for key in keys]
        panels = [
            replace(
                stage_panel(run, [""], stage.key, 0, 0, stage.label),
                values=np.ones((1, 1), np.float32),
                masked=np.ones((1, 1), bool) if stage.masked else None,
            )
            for stage in stages
        ]
        picture = Heatmaps("", panels, stages[0].scale, len(panels), height=_TALL, ranged=True)
        what = " and ".join(stage.label for stage in stages)
        fields = {"alt": what, "chooses": True, "drags": False, "asks": []}
        headers[name] = canvas.header(picture, colors) | fields
    return headers


def _sum(colors: Palette) -> dict[str, Any]:
    """The colours of a cell's arithmetic."""
    return {
        "scale": colors.signed,
        "query": colors.query,
        "key": colors.key,
        "ink": colors.ink,
    }


def _difference(model: Model, packed: PackedWeights) -> float:
    """The largest change of a next-token probability by rounding, over EXAMPLES."""
    differences = []
    for text in EXAMPLES:
        ids = model.tokenizer.encode(text)[: model.config.n_positions]
        own, rounded = (trace(m, ids).next_token_probabilities for m in (model, packed.model))
        differences.append(float(np.abs(own - rounded).max()))
    return max(differences)


def _notes(model: Model, packed: PackedWeights) -> list[str]:
    """Notes on the model, and on the error of its packed weights."""
    size = sum(map(len, packed.parts.values())) / 1e6
    return [
        f"{model.name}: its weights are in this file, {size:.1f} MB, each number within "
        f"{show.round_up(packed.error, 1)} of the model's own. Over the examples this moves the "
        f"probability of a next token by at most {show.round_up(_difference(model, packed), 1)}.",
        "The model runs in this page, in float32. Close it, and nothing is left.",
    ]
