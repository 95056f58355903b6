"""The model card: what ``gpt2viz.training.evaluate`` measured, in words and tables (Markdown)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpt2viz.analysis.scores import SCORES
from gpt2viz.model.config import ModelConfig
from gpt2viz.training.corpus import OVERLAP
from gpt2viz.training.recipe import Nudge, Recipe
from gpt2viz.training.targets import TARGETS, Figures, best_head

#: The name of the first-token score over the first 16 tokens of a paragraph.
FIRST_OF_OPENING = "first token, of 16"
#: The scores whose best head is reported during training.
REPORTED = ("previous token", "induction")
#: The file beside the card that lists the books without a held-out part.
FURTHER = "further_books.csv"


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def targets_text(figures: Mapping[str, Figures]) -> str:
    """A table (Markdown): for every target the limit and each model's figure, by its name.

    A ✗ after a figure marks a missed target.
    """
    rows = [
        (
            target.what,
            f"at {target.at} {target.limit:g}",
            *(
                f"{target.figure(f):.3f}{'' if target.is_reached(f) else ' ✗'}"
                for f in figures.values()
            ),
        )
        for target in TARGETS
    ]
    return table(("", "target", *figures), rows)


def figures_text(figures: dict[str, Any]) -> str:
    """All figures of an evaluation as Markdown, for the card and for the terminal."""
    grams = figures["n-gram bits per byte"]
    counted = [
        (f"n-gram, order {n}", *(f"{grams[name][n]:.3f}" for name in grams))
        for n in next(iter(grams.values()))
    ]
    bits = f"**{figures['bits per byte']:.3f}**"
    counted.append(("**this model**", *[bits] * len(grams)))
    packed = figures["xz bits per byte"]
    heads, roles = figures["heads"], figures["roles"]
    every = [
        (f"{n}.{h}", *(f"{heads[name][n][h]:.2f}" for name in heads), role)
        for n, row in enumerate(roles)
        for h, role in enumerate(row)
    ]
    best = [(name, *best_head(layers)[::-1]) for name, layers in heads.items()]
    halves = figures["repetition"].items()
    quoted = "\n".join(f"- {' '.join(text.split())}" for text in figures["continuations"])
    parts = (
        f"Held-out text, {figures['held-out tokens']:,} tokens in {figures['held-out rows']:,} "
        f"contexts: **{figures['bits per byte']:.2f} bits per byte**, beside n-grams counted on "
        "the text of the same books, smoothed in two ways:",
        table(("bits per byte", *grams), counted),
        f"`xz`, which has read the same books, needs {packed:.3f} bits per byte for all of the "
        "held-out text.",
        overlap_text(figures),
        "Loss by position in the context (nats per token), over the same text:",
        table(
            ("tokens before", "loss"),
            [(stretch, f"{loss:.2f}") for stretch, loss in figures["loss by position"].items()],
        ),
        "Random tokens given twice: loss (nats per token) the first time and the second:",
        table(
            ("tokens", "first half", "second half"),
            [(n, f"{half['first']:.2f}", f"{half['second']:.2f}") for n, half in halves],
        ),
        "The best head of each kind (layer.head, from 0; mean attention weight). The scores on "
        f"text are means over {figures['rows that heads are scored on']} of the contexts:",
        table(("kind", "head", "score"), [(n, where, f"{score:.2f}") for n, where, score in best]),
        "What it was to reach, and what it reached (✗ where it didn't):",
        targets_text({"this model": figures}),
        "Every head:",
        table(("head", *heads, "does"), every),
        "Continuations, 30 tokens, temperature 0.8, the 40 most probable, seed 0, as sampled:",
        quoted,
    )
    return "\n\n".join(parts)


def overlap_text(figures: dict[str, Any]) -> str:
    """The share of held-out text that is also in another book's training part, and its effect."""
    stored = figures["overlap"]
    return (
        f"Books quote and reprint each other: of the runs of {OVERLAP} words in the held-out text, "
        f"{100 * stored['share']:.1f} % also occur in the training part of some book; for one book "
        f"it is {100 * stored['most in a book']:.0f} %. Without the paragraphs that contain such a "
        f"run, the model needs {stored['bits per byte without']:.3f} bits per byte."
    )


def missed_targets(figures: Figures) -> list[str]:
    """The targets that the figures miss, each in a sentence with what was measured."""
    return [
        f"It misses a target: {target.what} {target.figure(figures):.2f} "
        f"(at {target.at} {target.limit:g})."
        for target in TARGETS
        if not target.is_reached(figures)
    ]


def recipe_text(recipe: Recipe, run: dict[str, Any], hardware: str) -> str:
    """The run as it went: its phases up to the last step, rates, tokens, time and curve."""
    curves = run["curves"]
    last, rows = curves[-1], []
    for phase, steps in recipe.phases_until(last["step"]):
        shares = [f"{100 * x:.0f} %" for x in (phase.repeated, phase.own, phase.last_rate)]
        rows.append((f"{steps:,}", phase.batch, phase.length, *shares))
    points = [
        (
            f"{point['step']:,}",
            f"{point['tokens'] / 1e6:.1f}",
            *(f"{point[k]:.2f}" for k in ("held_out_loss", "first_half_loss", "second_half_loss")),
            *(f"{np.max(point[SCORES[name].record]):.2f}" for name in REPORTED),
        )
        for point in curves
    ]
    names = ("step", "million tokens", "held out", "first half", "second half")
    return "\n\n".join(
        (
            f"{last['tokens']:,} tokens in {last['step']:,} steps, {run['seconds']:,} seconds on "
            f"{hardware}. {reading_text(recipe, run)} Muon (rate {recipe.muon_lr}, weight decay "
            f"{recipe.weight_decay}) for the matrices of the blocks, AdamW (rate "
            f"{recipe.adam_lr}) for the rest; {recipe.warmup} steps of warm-up; seed "
            f"{recipe.seed}.",
            "**No head was set or held.** Some were nudged for a while, by an extra loss on their "
            "weights, and left to themselves before and afterwards. Scores, where "
            "the run kept them, are means over the contexts below: at the first point after the "
            "nudge, and at last, when the head was nudged again or the run ended:",
            table(
                ("head", "nudged toward the", "in steps", "weight", "score after it", "at last"),
                [_row(nudge, recipe, curves) for nudge in recipe.nudges],
            ),
            "All through the run, a loss on heads whose weights are nearly the same on a row kept "
            f"them from becoming copies of each other (weight {recipe.alike:g}).",
            table(
                (
                    *("steps", "rows", "tokens a row", "rows of repeated random tokens"),
                    *("text rows from the listed books", "learning rate at the end"),
                ),
                rows,
            ),
            f"While it trained (losses in nats per token, on {run['held-out rows']} contexts of "
            "held-out text; halves of 32 random tokens given twice; best head's score):",
            table((*names, *REPORTED), points),
        )
    )


def _row(nudge: Nudge, recipe: Recipe, curves: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """A nudge's row: its head, habit and time, and the head's score soon after and at the end."""
    layer, head = nudge.layer, nudge.head
    end = nudge.start + nudge.steps
    others = [n.start for n in recipe.nudges if (n.layer, n.head) == (layer, head)]
    until = min((start for start in others if start >= end), default=recipe.steps)
    alone = [point for point in curves if end <= point["step"] <= until]
    record = SCORES[nudge.toward].record
    scores = ["", ""]
    if record and alone:
        scores = [f"{point[record][layer][head]:.2f}" for point in (alone[0], alone[-1])]
    steps = f"{nudge.start + 1:,}–{end:,}"
    return f"{layer}.{head}", nudge.toward, steps, f"{nudge.weight:g}", *scores


def reading_text(recipe: Recipe, run: dict[str, Any]) -> str:
    """The number of times that the run read each token of its books, up to the last step."""
    own = more = 0.0
    for phase, steps in recipe.phases_until(run["curves"][-1]["step"]):
        text = steps * (phase.batch - phase.repeated_rows) * phase.length
        own, more = own + text * phase.own, more + text * (1 - phase.own)
    sizes = run["training tokens"]
    sentence = f"The {sizes['own'] / 1e6:.1f} million tokens of the listed books were read "
    sentence += f"{own / sizes['own']:.1f} times over"
    if sizes.get("more"):
        sentence += f", and the {sizes['more'] / 1e6:.1f} million of further books "
        sentence += f"{more / sizes['more']:.1f} times"
    return sentence + "."


def books_text(books: list[dict[str, Any]], more: list[dict[str, Any]]) -> str:
    """The training texts: ``books`` whose ends are held out, and the number of ``more`` books."""
    sentence = (
        f"{len(books)} books of Project Gutenberg, which lists them as in the public domain in the "
        "United States; elsewhere your own country's law decides. The last 2 % of every book were "
        "held out: the model wasn't trained on them, and is measured on them."
    )
    if more:
        sentence += (
            f" It also read {len(more)} further books that are in the public domain there, from "
            "Project Gutenberg and Standard Ebooks: children's books, adventure, novels and "
            f"readable non-fiction, without the paragraphs that share {OVERLAP} words in a row "
            f"with held-out text. `{FURTHER}` lists them."
        )
    return sentence


def model_card(
    figures: dict[str, Any],
    config: ModelConfig,
    books: list[dict[str, Any]],
    more: list[dict[str, Any]],
    run: dict[str, Any],
    hardware: str,
) -> str:
    """The whole README.md of a model folder.

    ``books`` and ``more`` are the manifests' entries (gutenberg_id, title, author, chars); ``run``
    is ``training.json``. Raises ``KeyError`` if one of them lacks a field.
    """
    listed = [(b["gutenberg_id"], b["title"], b["author"], f"{b['chars']:,}") for b in books]
    limits = (
        "It knows only old books: no facts, no present-day English, no instructions. "
        "It loses the thread after a sentence or two, and repeats those books' views of people."
    )
    parts = (
        "# A small GPT-2 that has read old books, many of them for children",
        f"GPT-2's architecture: {config.n_layer} layers of {config.n_head} heads, width "
        f"{config.n_embd}, context {config.n_positions}, a byte-level BPE of its own with "
        f"{config.vocab_size:,} tokens; float16. It exists to be looked into, not to be used.",
        "## Figures",
        figures_text(figures),
        "## What it can't do",
        limits,
        "\n".join(f"- {sentence}" for sentence in missed_targets(figures))
        or "It misses none of its targets.",
        "## Data",
        books_text(books, more),
        table(("number", "title", "author", "characters"), listed),
        "## Training",
        recipe_text(Recipe(), run, hardware),
        "`evaluation.json` has these figures, `sample.txt` a little held-out text to check them "
        "on, `training.json` every head's scores during training.",
    )
    return "\n\n".join(parts) + "\n"
