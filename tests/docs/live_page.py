"""Write the page that runs the model into the docs, whose first page embeds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpt2viz


def on_post_build(config: Any) -> None:
    """MkDocs calls this after building the docs."""
    gpt2viz.write_page(gpt2viz.load_model(), Path(config["site_dir"]) / "attention.html")
