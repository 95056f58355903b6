"""``gpt2viz contributions``: what each part of the model added to a token's logit."""

from __future__ import annotations

from dataclasses import asdict

import click

import gpt2viz
from gpt2viz import Contributions
from gpt2viz.cli import options
from gpt2viz.export import about
from gpt2viz.labels import spelled

#: Parts that are printed; --json has all.
PRINTED = 12


@click.command()
@options.runs_a_model
@click.option("--token", metavar="TEXT", help='Such as " on"; the most probable if not given.')
@click.option("--versus", metavar="TEXT", help="Another token, whose logit is taken away.")
@options.position
def contributions(
    run: options.Run,
    as_json: bool,
    quiet: bool,
    token: str | None,
    versus: str | None,
    position: int,
) -> None:
    """Say what each part of the model added to the logit of a next token.

    A sum, in nats: embeddings, heads and MLPs, with the final LayerNorm's scale
    as it was in this run. Printed are the largest; together they are the logit.

    \b
        gpt2viz contributions "The cat sat on the mat and the cat sat" --token " on"
        gpt2viz contributions "A crane ate" --token " fish" --versus " grass" --json
    """
    model, trace = run()
    options.check_position(trace, position)
    tokenizer = model.tokenizer
    best = int(trace.logits_at(position).argmax())
    asked = best if token is None else token
    found = gpt2viz.contributions(model, trace, asked, versus, position)
    one, other = found.token, found.versus
    parts = _parts(found)
    if as_json:
        said = {"position": found.position, "token": one, "versus": other, "logit": found.logit}
        options.print_json(asdict(about(trace, "contributions")) | said | {"parts": parts})
        return
    for name in sorted(parts, key=lambda name: -abs(parts[name]))[:PRINTED]:
        click.echo(f"{parts[name]:>9.3f}  {name}")
    what = tokenizer.decode([one]) + ("" if other is None else f" − {tokenizer.decode([other])}")
    click.echo(spelled(f"{found.logit:>9.3f}  in all, of {len(parts)} parts: {what!r}"))


def _parts(found: Contributions) -> dict[str, float]:
    """Every part by its name; their sum is the logit."""
    parts = {
        "token embedding": found.token_embedding,
        "position embedding": found.position_embedding,
        "final LayerNorm's bias": found.norm_bias,
    }
    for layer, heads in enumerate(found.heads):
        parts |= {f"head {layer}.{head}": float(value) for head, value in enumerate(heads)}
        parts[f"attention's bias {layer}"] = float(found.attention_bias[layer])
        parts[f"MLP {layer}"] = float(found.mlp[layer])
    return parts
