"""``gpt2viz fewest``: the fewest heads that keep what distinguishes two texts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import gpt2viz
from gpt2viz import FewestHeads
from gpt2viz.cli import options
from gpt2viz.export import about
from gpt2viz.labels import escape_controls, percent
from gpt2viz.run.means import describe


@click.command()
@options.reads_a_text
@click.argument("other")
@options.no_causal
@click.option(
    "--right", metavar="TOKEN", help="The next token of TEXT; its most probable one if not given."
)
@click.option(
    "--wrong", metavar="TOKEN", help="The next token of OTHER; its most probable one if not given."
)
@click.option(
    "--keep",
    type=click.FloatRange(0, 1),
    default=0.9,
    show_default=True,
    help="The share of the answer to keep.",
)
@click.option(
    "--mean-over",
    metavar="FILE",
    type=click.Path(exists=True, path_type=Path),
    help="Texts, one per line: a head given up outputs its mean over them, position by "
    "position, instead of its mean over TEXT and OTHER.",
)
def fewest(
    read: options.Read,
    other: str,
    no_causal: bool,
    right: str | None,
    wrong: str | None,
    keep: float,
    mean_over: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Find the fewest heads that still tell two texts apart.

    TEXT ("-" reads stdin) and OTHER have as many tokens. Heads are given up one
    by one, each time the one that costs least: it then outputs its mean over
    both texts, so it no longer tells them apart. The share kept is what is left
    of the gap between the texts' differences of the two answers' logits.

    \b
        gpt2viz fewest "A crane ate fish. A crane ate" "A crane ate corn. A crane ate"
        gpt2viz fewest "A cat sat" "A dog sat" --right " down" --wrong " on" --json
    """
    if wrong is not None and right is None:
        raise click.UsageError("--wrong needs --right")
    loaded, ids, encode = read()
    pair, means = (ids, encode(other)), options.read_means(loaded, mean_over, encode)
    answer = [token for token in (right, wrong) if token is not None]
    with options.bar(quiet, "Giving up heads", 100) as tell:
        result = gpt2viz.fewest_heads(
            loaded, *pair, answer, causal=not no_causal, reference=means,
            progress=lambda _, share: tell(int(100 * share)),
        )  # fmt: skip
    if as_json:
        first, second = (gpt2viz.trace(loaded, text, not no_causal) for text in pair)
        header = asdict(about(first, "fewest heads")) | {"other": second.text}
        header["mean_over"] = "" if means is None else describe(means, ())
        options.print_json(header | _document(result, keep))
    else:
        _print(loaded, result, keep)


def _document(result: FewestHeads, keep: float) -> dict[str, Any]:
    """The result for JSON: heads are [layer, head], in the order in which they were removed."""
    right, wrong = result.answer
    return {
        "right": right,
        "wrong": wrong,
        "keep": keep,
        "kept": result.keeping(keep),
        "given_up": result.given_up,
        "faithfulness": result.faithfulness.tolist(),
    }


def _print(model: gpt2viz.Model, result: FewestHeads, keep: float) -> None:
    """Print the heads that keep the answer, and the share left as heads are removed one by one."""
    right, wrong = (repr(model.tokenizer.decode([n])) for n in result.answer)
    click.echo(escape_controls(f"{result.words(keep)} The answers are {right} and {wrong}."))
    n_kept = len(result.keeping(keep) or ())
    click.echo(f"\n{'heads left':>10}  {'kept':>6}")
    for left in range(n_kept, -1, -1):
        gone = result.n_heads - left
        layer, head = result.given_up[gone - 1]
        without = "" if left == n_kept else f"  without {layer}.{head}"
        click.echo(f"{left:>10}  {percent(result.faithfulness[gone]):>6}{without}")
