"""Run the example notebook, and save it with its outputs.

python -m tests.docs.notebook

Without plotly.js, which is megabytes and is added again when the notebook runs.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLE = Path(__file__).parents[2] / "examples" / "attention.ipynb"
_FIGURE = "application/vnd.plotly.v1+json"


def run() -> nbformat.NotebookNode:
    """The example notebook, run from the root in its own kernel."""
    notebook = nbformat.read(EXAMPLE, as_version=4)
    resources = {"metadata": {"path": str(EXAMPLE.parents[1])}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    return notebook


def main() -> None:
    """Write the example notebook with its outputs."""
    notebook = run()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # the time of day
        if "outputs" in cell:
            cell.outputs = [out for out in cell.outputs if "offline()" not in cell.source]
            for out in cell.outputs:
                if _FIGURE in out.get("data", {}):
                    out.data.pop("text/html", None)
    nbformat.write(notebook, EXAMPLE)


if __name__ == "__main__":
    main()
