"""``gpt2viz models``: what can be run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpt2viz import CheckpointError, settings
from gpt2viz.cli import columns, options
from gpt2viz.labels import spelled
from gpt2viz.model import places
from gpt2viz.model.checkpoint import read_config, weight_bytes
from gpt2viz.model.memory import run_bytes, spell


@click.command()
@options.as_json
@options.quiet
def models(as_json: bool, quiet: bool) -> None:
    """List the models: bundled, configured, and in the Hugging Face cache.

    Configured models are the folders in GPT2VIZ_MODELS and in the owner's
    file: the one that GPT2VIZ_CONFIG names, else gpt2viz.toml beside a clone's
    app.py, else ~/.config/gpt2viz/gpt2viz.toml.

    \b
        models = ["~/models/mine"]       # folders, relative to the file
        allow = ["gpt2", "owner/name"]   # what visitors of the app may fetch

    \b
        gpt2viz models
        gpt2viz models --json
    """
    source = dict.fromkeys(settings.by_name(settings.folders()), "configured")
    source[settings.BUNDLED.name] = "bundled"
    rows = []
    for name, folder in places.known().items():
        try:
            rows.append(_row(name, source.get(name, "hub cache"), folder))
        except CheckpointError as error:
            options.note(quiet, f"{name} can't be loaded: {error}")
    if as_json:
        options.print_json(rows)
    else:
        shown = [row | {"weights": spell(row["weights"]), "run": spell(row["run"])} for row in rows]
        click.echo(spelled(columns.of_rows(shown)))


def _row(name: str, source: str, folder: Path) -> dict[str, Any]:
    """One model; ``weights`` and ``run``, its longest text's, in bytes."""
    config, weights = read_config(folder), weight_bytes(folder)
    return {
        "name": name,
        "source": source,
        "layers": config.n_layer,
        "heads": config.n_head,
        "channels": config.n_embd,
        "vocabulary": config.vocab_size,
        "positions": config.n_positions,
        "parameters": weights // 4,
        "weights": weights,
        "run": run_bytes(config),
        "folder": str(folder),
    }
