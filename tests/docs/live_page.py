"""Put the page that runs the model beside the docs, whose first page frames it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpt2viz


def on_post_build(config: Any) -> None:
    """Write it once the docs are built: MkDocs calls this."""
    gpt2viz.write_page(gpt2viz.load_model(), Path(config["site_dir"]) / "attention.html")
