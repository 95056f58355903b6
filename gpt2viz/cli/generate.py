"""``gpt2viz generate``: go on with a text, token by token."""

from __future__ import annotations

from dataclasses import asdict

import click

import gpt2viz
from gpt2viz import __version__
from gpt2viz.cli import options
from gpt2viz.labels import spelled


@click.command()
@click.argument("text")
@options.model
@click.option("-n", "--tokens", type=click.IntRange(1), default=20, show_default=True)
@click.option(
    "--temperature", type=click.FloatRange(0), default=0.0, show_default=True, help="0 is greedy."
)
@click.option("--top-k", type=click.IntRange(1), help="Draw among so many of the most probable.")
@click.option(
    "--top-p",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    help="Draw among the most probable that have this much together.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@options.endoftext
@options.special
@options.device
@options.as_json
@options.quiet
def generate(
    text: str,
    model: str,
    tokens: int,
    temperature: float,
    top_k: int | None,
    top_p: float,
    seed: int,
    endoftext: bool,
    special: bool,
    device: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Go on with TEXT, token by token ("-" reads stdin).

    The same seed gives the same text. Ends early where the model ends the text
    or its context is full.

    \b
        gpt2viz generate "Once upon a time"
        gpt2viz generate "Once upon a time" -n 50 --temperature 0.8 --top-p 0.9
        gpt2viz generate "A crane ate" --tokens 3 --json
    """
    loaded, ids = options.read(text, model, device, quiet, endoftext, special)
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    chosen = list(gpt2viz.generate(loaded, ids, tokens, **drawn))  # type: ignore[arg-type]
    added = loaded.tokenizer.decode([choice.token for choice in chosen])
    if as_json:
        said = {"model": loaded.name, "version": __version__, "token_ids": ids, **drawn}
        options.print_json(said | {"added": added, "choices": [asdict(one) for one in chosen]})
    else:
        click.echo(spelled(loaded.tokenizer.decode([*ids, *(c.token for c in chosen)])))
