"""Make a page on which another tool draws attention weights, in that tool's own environment.

    python peer_pages.py NAME WEIGHTS.npy TOKENS.json OUT.html

``WEIGHTS.npy`` holds a run's weights of all layers (n_layer, nh, T, T), ``TOKENS.json`` T strings.
Each function below calls the tool as its documentation does and returns the HTML that a notebook
would show. Imports nothing of this package's environment.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: The layer whose heads are drawn where a tool draws one layer.
LAYER = 5

MakePage = Callable[[Any, list[str]], str]


def bertviz_head_view(weights: Any, tokens: list[str]) -> str:
    """One layer's heads as lines between two columns of tokens; no other layer in the page."""
    from bertviz import head_view

    layers = [layer[None] for layer in weights]
    page = head_view(layers, tokens, layer=LAYER, include_layers=[LAYER], html_action="return")
    return str(page.data)


def bertviz_head_view_layers(weights: Any, tokens: list[str]) -> str:
    """The same by default: one layer drawn, and all layers in the page to choose from."""
    from bertviz import head_view

    layers = [layer[None] for layer in weights]
    return str(head_view(layers, tokens, layer=LAYER, html_action="return").data)


def bertviz_model_view(weights: Any, tokens: list[str]) -> str:
    """Every head of every layer, small."""
    from bertviz import model_view

    return str(model_view([layer[None] for layer in weights], tokens, html_action="return").data)


def circuitsvis_heads(weights: Any, tokens: list[str]) -> str:
    """One layer's heads as small pictures, and one of them large."""
    from circuitsvis.attention import attention_heads

    return str(attention_heads(attention=weights[LAYER], tokens=tokens).local_src)


def circuitsvis_patterns(weights: Any, tokens: list[str]) -> str:
    """The same with the older function, which most tutorials use."""
    from circuitsvis.attention import attention_patterns

    return str(attention_patterns(tokens=tokens, attention=weights[LAYER]).local_src)


PAGES: dict[str, MakePage] = {
    made.__name__: made
    for made in (
        bertviz_head_view,
        bertviz_head_view_layers,
        bertviz_model_view,
        circuitsvis_heads,
        circuitsvis_patterns,
    )
}


def main() -> None:
    """Make the page that the command line names."""
    import numpy as np
    import torch

    name, weights, tokens, out = sys.argv[1:5]
    values = torch.from_numpy(np.load(weights))
    page = PAGES[name](values, json.loads(Path(tokens).read_text(encoding="utf-8")))
    Path(out).write_text(f'<!doctype html><meta charset="utf-8">\n{page}', encoding="utf-8")


if __name__ == "__main__":
    main()
