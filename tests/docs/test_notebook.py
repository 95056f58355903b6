"""The example notebook in a real Jupyter kernel."""

from __future__ import annotations

import re
from typing import Any

import nbformat
import numpy as np

from tests.docs.notebook import EXAMPLE, run

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
FETCHES = re.compile(r"""<(script|link|img|iframe)[^>]*(src|href)\s*=\s*["']?(https?:)?//""")


def outputs(notebook: Any) -> list[dict[str, str]]:
    made = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert all(out.output_type != "error" for out in made)
    return [out.get("data", {}) for out in made]


def test_the_example_notebook_runs() -> None:
    """If this fails: python -m tests.docs.notebook"""
    stored = outputs(nbformat.read(EXAMPLE, as_version=4))
    result = outputs(run())
    assert sum("application/vnd.plotly.v1+json" in data for data in result) == 3
    assert sum("Plotly.newPlot" in data.get("text/html", "") for data in result) == 3
    for data in result:
        assert not FETCHES.search(data.get("text/html", ""))
    # The committed outputs are the same, except for plotly.js and the last digits, which differ
    # between processors.
    texts = [
        "\n".join(data["text/plain"] for data in of if set(data) == {"text/plain"})
        for of in (stored, result)
    ]
    assert re.sub(NUMBER, "n", texts[0]) == re.sub(NUMBER, "n", texts[1])
    before, now = ([float(n) for n in re.findall(NUMBER, text)] for text in texts)
    np.testing.assert_allclose(now, before, rtol=1e-5, atol=1e-7)
    assert EXAMPLE.stat().st_size < 300_000
