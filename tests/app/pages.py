"""Run pages without a browser, and read the numbers back out of their charts."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

# Each AppTest looks through all that is installed for components, which takes several times as
# long as a page here and finds the same each time.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)

ROOT = Path(__file__).parents[2]
PAGES = {
    "attention": "app.py",
    "inside": "pages/1_inside_head.py",
    "compare": "pages/2_compare_layers.py",
    "mask": "pages/3_causal_mask.py",
    "shapes": "pages/4_shapes.py",
    "whatif": "pages/6_what_if.py",
    "predictions": "pages/5_predictions.py",
    "generate": "pages/7_generate.py",
    "training": "pages/8_training.py",
    "textbook": "pages/11_textbook.py",
    "find": "pages/9_find.py",
    "two": "pages/10_compare.py",
    "models": "pages/12_models.py",
}
#: Pages that read no sentence.
WITHOUT = {"glossary": "pages/13_glossary.py"}


def open_page(page: str, **parameters: str) -> AppTest:
    """A fresh visitor opens a page by its address."""
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    if page != "attention":
        at.switch_page(str(ROOT / (PAGES | WITHOUT)[page]))
    for name, value in parameters.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception, at.exception
    return at


def plain(markdown: str) -> str:
    """What a Markdown text says without its links to the glossary."""
    return re.sub(r'\[([^\[\]]+)\]\(glossary\?term=\S+ "[^"]*"\)', r"\1", markdown)


def figure(at: AppTest, key: str) -> Any:
    """The Plotly figure of a chart, as the browser gets it."""
    found = [c for c in at.get("plotly_chart") if c.proto.id.endswith(f"-{key}")]
    assert len(found) == 1, f"{key}: {len(found)} charts"
    return json.loads(found[0].proto.spec)


def array(encoded: Any) -> np.ndarray:
    """The numbers of an array that Plotly sends in binary."""
    flat = np.frombuffer(base64.b64decode(encoded["bdata"]), np.dtype(encoded["dtype"]))
    return flat.reshape([int(n) for n in str(encoded.get("shape", flat.size)).split(",")])


def heatmaps(spec: Any) -> dict[str, np.ndarray]:
    """Panel name -> matrix, for the traces that carry numbers (not the masks over them)."""
    return {
        trace["meta"]: array(trace["z"])
        for trace in spec["data"]
        if trace["type"] == "heatmap" and trace.get("coloraxis")
    }


def masks(spec: Any) -> list[np.ndarray]:
    """The cells that are painted as masked, one boolean matrix a panel."""
    return [
        ~np.isnan(array(trace["z"]))
        for trace in spec["data"]
        if trace["type"] == "heatmap" and "masked" in trace["hovertemplate"]
    ]
