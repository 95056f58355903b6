"""``gpt2viz surprise``, ``lens``, ``contributions``, ``route``, ``generate``: predictions."""

from __future__ import annotations

import math
from dataclasses import asdict

import click

import gpt2viz
from gpt2viz import Contributions, Route, __version__
from gpt2viz.cli import options
from gpt2viz.export import about
from gpt2viz.labels import escape_controls, label, percent


@click.command()
@options.runs_a_model
def surprise(run: options.Run, as_json: bool) -> None:
    """Show how unexpected each token of TEXT was, in bits ("-" reads stdin).

    −log2 of the probability that the model gave a token before it came.
    The first token has none: nothing comes before it.

    \b
        gpt2viz surprise "A crane ate fish"
        gpt2viz surprise "A crane ate fish" --model gpt2 --json
    """
    _, trace = run()
    bits = gpt2viz.surprise(trace)
    if as_json:
        values = {"tokens": trace.tokens, "token_ids": trace.token_ids, "bits": bits.tolist()}
        options.print_json(asdict(about(trace, "surprise")) | values)
        return
    for position, (token, value) in enumerate(zip(trace.labels, bits, strict=True)):
        bits_text = "-" if math.isnan(value) else f"{value:.2f}"
        click.echo(escape_controls(f"{position:>5}  {bits_text:>6}  {token}"))


@click.command()
@options.runs_a_model
@options.position
def lens(run: options.Run, as_json: bool, position: int) -> None:
    """Show the next token as the model would predict it after each step.

    The logit lens (nostalgebraist 2020): after each step the most probable
    next token, its probability, and the rank of the model's own answer.
    Tokens count from 0; negative numbers count from the end.

    \b
        gpt2viz lens "The cat sat on the mat and the cat sat"
        gpt2viz lens "The cat sat on the mat" --position 1 --json
    """
    model, trace = run()
    read = gpt2viz.logit_lens(model, trace, [position])
    rows = [
        {
            "stage": key,
            "layer": layer,
            "token_id": int(read.top[n, 0]),
            "token": label(model.tokenizer.token_bytes(int(read.top[n, 0]))),
            "probability": float(read.probability[n, 0]),
            "entropy": float(read.entropy[n, 0]),
            "rank_of_the_answer": int(read.rank[n, 0]),
        }
        for n, (key, layer) in enumerate(read.sites)
    ]
    if as_json:
        reading = {"position": read.positions[0], "answer": int(read.answer[0]), "places": rows}
        options.print_json(asdict(about(trace, "logit lens")) | reading)
        return
    for n, row in enumerate(rows):
        stage = row["stage"] if row["layer"] is None else f"{row['stage']}.{row['layer']}"
        rank, p = f"answer {row['rank_of_the_answer']:,}", percent(float(read.probability[n, 0]), 1)
        click.echo(escape_controls(f"{stage:<16} {p:>7}  {rank:<14} {row['token']}"))


#: The number of parts to print; --json has all.
PRINTED = 12

_token = click.option("--token", metavar="TEXT", help='Such as " on"; the likeliest if not given.')


@click.command()
@options.runs_a_model
@_token
@click.option("--versus", metavar="TEXT", help="Another token, whose logit is subtracted.")
@options.position
def contributions(
    run: options.Run, as_json: bool, token: str | None, versus: str | None, position: int
) -> None:
    """Show what each component added to the logit of a next token.

    A sum, in nats: embeddings, heads and MLPs, with the final norm's scale
    as it was in this run. The largest are printed; all of them add up to the
    logit.

    \b
        gpt2viz contributions "The cat sat on the mat and the cat sat" --token " on"
        gpt2viz contributions "A crane ate" --token " fish" --versus " grass" --json
    """
    model, trace = run()
    target = int(trace.logits_at(position).argmax()) if token is None else token
    result = gpt2viz.contributions(model, trace, target, versus, position)
    if as_json:
        header = asdict(about(trace, "contributions")) | {"position": result.position}
        values = {"token": result.token, "versus": result.versus, "logit": result.logit}
        options.print_json(header | values | {"parts": result.parts})
    else:
        _print_parts(model, result, {str(p): added for p, added in result.parts.items()}, PRINTED)


@click.command()
@options.runs_a_model
@_token
@click.option("--query", type=int, default=-1, show_default=True, help="The token to read at.")
@click.option(
    "--top", type=click.IntRange(1), default=PRINTED, show_default=True, help="Parts to print."
)
def route(run: options.Run, as_json: bool, token: str | None, query: int, top: int) -> None:
    """Show how much each token of TEXT added to a next token's logit, by which head.

    Like `contributions`, a sum in nats, with every head split by the tokens
    that it read. The largest are printed; --json has all.

    \b
        gpt2viz route "The cat sat on the mat and the cat sat" --token " on"
        gpt2viz route "A crane ate" --query 1 --top 5 --json
    """
    model, trace = run()
    target = int(trace.logits_at(query).argmax()) if token is None else token
    result = gpt2viz.route(model, trace, target, query)
    if as_json:
        header = asdict(about(trace, "route")) | {"tokens": trace.tokens, "query": result.query}
        values = {"token": result.token, "logit": result.logit, "heads": result.heads.tolist()}
        options.print_json(header | values | {"rest": result.rest})
        return
    parts = {str(part): added for part, added in result.rest.items()}
    for (layer, head, _, key), added in result.top((result.heads != 0).sum()):  # not of later keys
        parts[f"head {layer}.{head} from {key} ({trace.labels[key]})"] = added
    _print_parts(model, result, parts, top)


def _print_parts(
    model: gpt2viz.Model, result: Contributions | Route, parts: dict[str, float], top: int
) -> None:
    """Print the largest parts of a logit, and the logit."""
    for name in sorted(parts, key=lambda name: -abs(parts[name]))[:top]:
        click.echo(escape_controls(f"{parts[name]:>9.3f}  {name}"))
    what = model.tokenizer.decode([result.token])
    what += "" if result.versus is None else f" − {model.tokenizer.decode([result.versus])}"
    whole = f"{result.logit:>9.3f}  in all, from {len(parts)} contributions: {what!r}"
    click.echo(escape_controls(whole))


@click.command()
@options.reads_a_text
@click.option("-n", "--tokens", type=click.IntRange(1), default=20, show_default=True)
@click.option(
    "--temperature", type=click.FloatRange(0), default=0.0, show_default=True, help="0 is greedy."
)
@click.option("--top-k", type=click.IntRange(1), help="Draw only from the K most probable tokens.")
@click.option(
    "--top-p",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    help="Draw only from the most probable tokens that together have this share.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def generate(
    read: options.Read,
    tokens: int,
    temperature: float,
    top_k: int | None,
    top_p: float,
    seed: int,
    as_json: bool,
) -> None:
    """Continue TEXT, token by token ("-" reads stdin).

    The same seed gives the same text. Ends early where the model ends the text
    or its context is full.

    \b
        gpt2viz generate "Once upon a time"
        gpt2viz generate "Once upon a time" -n 50 --temperature 0.8 --top-p 0.9
        gpt2viz generate "A crane ate" --tokens 3 --json
    """
    if not temperature and (top_k, top_p, seed) != (None, 1, 0):
        raise click.UsageError("--top-k, --top-p and --seed need a --temperature above 0")
    loaded, ids, _ = read()
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    chosen = list(gpt2viz.generate(loaded, ids, tokens, **drawn))  # type: ignore[arg-type]
    added = loaded.tokenizer.decode([choice.token for choice in chosen])
    if as_json:
        header = {"model": loaded.name, "version": __version__, "token_ids": ids, **drawn}
        options.print_json(
            header | {"added": added, "choices": [asdict(choice) for choice in chosen]}
        )
    else:
        click.echo(escape_controls(loaded.tokenizer.decode([*ids, *(c.token for c in chosen)])))
