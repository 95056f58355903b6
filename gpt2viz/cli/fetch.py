"""``gpt2viz fetch``: a model from the Hugging Face hub into its cache, where all can use it."""

from __future__ import annotations

import click

from gpt2viz import settings
from gpt2viz.cli import options
from gpt2viz.errors import HubError
from gpt2viz.model import hub
from gpt2viz.model.memory import spell


@click.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Say only the size.")
@options.as_json
@options.quiet
def fetch(name: str, dry_run: bool, as_json: bool, quiet: bool) -> None:
    """Fetch the model NAME from the Hugging Face hub, after saying its size.

    After an @ it may say which revision: a branch, a tag or a commit. Those
    called step1000 are checkpoints of the model's training.

    It is kept in the hub's own cache. A stopped download goes on where it was
    when the command is repeated. Only config, vocabulary, weights and card are
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
    allowed = settings.allowed()
    if allowed and model not in allowed and "*" not in allowed:
        raise HubError(
            f"{model!r:.100} may not be fetched here; the list `allow` in gpt2viz.toml, or "
            f"{settings.ALLOW_VARIABLE}, has: {', '.join(allowed)}"
        )
    offer = hub.look_up(model, revision or None)
    here = offer.here
    some = f", {spell(here)} of it here already" if here else ""
    options.note(quiet, f"{name} is {spell(offer.nbytes)}{some}")
    if dry_run:
        _print(as_json, name, offer.nbytes, here)
        return
    with options.bar(quiet, "Fetching", offer.nbytes, here) as tell:
        folder = hub.fetch(offer, tell)
    _print(as_json, name, offer.nbytes, offer.nbytes, str(folder))


def _print(as_json: bool, name: str, nbytes: int, here: int, folder: str | None = None) -> None:
    if as_json:
        options.print_json({"name": name, "bytes": nbytes, "here": here, "folder": folder})
    else:
        click.echo(f"{name}: {folder or f'{nbytes:,} bytes'}")
