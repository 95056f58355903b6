"""``gpt2viz models``, ``fetch``, ``page`` and ``convert``: models on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import gpt2viz
from gpt2viz import CheckpointError, settings
from gpt2viz.cli import options
from gpt2viz.errors import HubError
from gpt2viz.labels import escape_controls, layers_of_heads
from gpt2viz.model import convert as conversion
from gpt2viz.model import hub, model_registry
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
    source = dict.fromkeys(settings.name_paths(settings.folders()), "configured")
    source |= dict.fromkeys(settings.packaged_models(), "package")
    source[settings.BUNDLED.name] = "bundled"
    rows = []
    for name, folder in model_registry.models().items():
        try:
            rows.append(_row(name, source.get(name, "hub cache"), folder))
        except CheckpointError as error:
            options.note(quiet, f"{name} can't be loaded: {error}")
    if as_json:
        options.print_json(rows)
    else:
        shown = [row | {"weights": spell(row["weights"]), "run": spell(row["run"])} for row in rows]
        click.echo(escape_controls(options.format_rows(shown)))


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


@click.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Only show the size.")
@options.as_json
@options.quiet
def fetch(name: str, dry_run: bool, as_json: bool, quiet: bool) -> None:
    """Fetch the model NAME from the Hugging Face hub, after saying its size.

    NAME@REVISION fetches a branch, a tag or a commit. Revisions such as
    step1000 are checkpoints of the model's training.

    It is kept in the hub's own cache. A stopped download continues when the
    command is repeated. Only config, vocabulary, weights and card are
    fetched. Where gpt2viz.toml has a list `allow`, or GPT2VIZ_ALLOW_MODEL is
    set, only the names in it can be fetched.

    \b
        gpt2viz fetch gpt2
        gpt2viz fetch owner/name --dry-run
        gpt2viz fetch owner/name@step1000
        gpt2viz trace "A crane ate fish" --model gpt2
    """
    model, at, revision = name.partition("@")
    if at and not revision:
        raise HubError(f"{name!r:.100} names no revision after the @.")
    allowed = settings.allowed_names()
    if allowed and model not in allowed and "*" not in allowed:
        raise HubError(
            f"{model!r:.100} may not be fetched here; the list `allow` in gpt2viz.toml, or "
            f"{settings.ALLOW_VARIABLE}, has: {', '.join(allowed)}"
        )
    offer = hub.look_up(model, revision or None)
    here = offer.here
    some = f", {spell(here)} of it here already" if here else ""
    options.note(quiet, f"{name} is {spell(offer.nbytes)}{some}")
    folder = None
    if not dry_run:
        with options.bar(quiet, "Fetching", offer.nbytes, here) as tell:
            folder = str(hub.fetch(offer, tell))
        here = offer.nbytes
    if as_json:
        options.print_json({"name": name, "bytes": offer.nbytes, "here": here, "folder": folder})
    else:
        click.echo(f"{name}: {folder or f'{offer.nbytes:,} bytes'}")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--heads", type=click.IntRange(1), help="Heads per layer, if FILE doesn't say.")
@click.option(
    "--tokenizer",
    metavar="NAME|FOLDER|FILE",
    help="A model, such as gpt2, to copy the vocabulary from; nanoGPT's meta.pkl; or a JSON list "
    "of the tokens in the order of their ids.",
)
@options.as_json
@options.quiet
def convert(
    file: Path,
    folder: Path,
    heads: int | None,
    tokenizer: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Turn a FILE of nanoGPT or minGPT into a checkpoint FOLDER.

    FILE is a pickle; it is read without running any code that is in it.

    \b
        gpt2viz convert ckpt.pt mine --tokenizer gpt2
        gpt2viz convert ckpt.pt mine --tokenizer data/shakespeare_char/meta.pkl
        gpt2viz convert model.pt mine --heads 6 --tokenizer tokens.json
    """
    words = tokenizer and not Path(tokenizer).is_file() and model_registry.find(tokenizer)[1]
    config = conversion.convert(file, folder, heads, words or tokenizer or None)
    if as_json:
        options.print_json({"folder": str(folder), "parameters": weight_bytes(folder) // 4})
    else:
        click.echo(
            f"{escape_controls(str(folder))}: {layers_of_heads(config.n_layer, config.n_head)}, "
            f"C = {config.n_embd}, vocabulary {config.vocab_size:,}, "
            f"{config.n_positions:,} positions"
        )
    if not tokenizer:
        options.note(
            quiet,
            f"Now put the vocabulary of its training into {folder}: vocab.json and "
            "merges.txt, or tokens.json, a list.",
        )


@click.command()
@click.argument("text", required=False)
@options.model
@click.option(
    "-o",
    "--out",
    default="attention.html",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write.",
)
@options.quiet
def page(text: str | None, model: str, out: Path, quiet: bool) -> None:
    """Write one HTML file that runs the model in any browser, without a server.

    It opens with TEXT, and takes any other. Of a GPT-2 of up to 60 MB.

    \b
        gpt2viz page --out attention.html
        gpt2viz page "The cat sat on the mat" --model ~/models/mine
    """
    name, folder = model_registry.find(model)
    gpt2viz.write_page(gpt2viz.load_model(folder, name), out, *([text] if text else []))
    options.note(quiet, f"Wrote {out}, {out.stat().st_size / 1e6:.1f} MB")
