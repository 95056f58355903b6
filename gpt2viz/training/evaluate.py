"""``python -m gpt2viz.training.evaluate --corpus FILE --model FOLDER``: what a model has learned.

Prints the figures beside those of n-grams; ``--write`` stores them as ``evaluation.json`` beside
the weights, with a held-out sample to check them on, and writes the model card from
them.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gpt2viz
from gpt2viz.analysis.batch_scores import (
    attention_weights,
    batch_scores,
    repeated_rows,
    token_losses,
)
from gpt2viz.analysis.scores import SCORES
from gpt2viz.arrays import Array
from gpt2viz.training.card import (
    FIRST_OF_OPENING,
    FURTHER,
    figures_text,
    model_card,
    targets_text,
)
from gpt2viz.training.corpus import Corpus, known_runs, read_corpus, without_overlap
from gpt2viz.training.ngram import NGrams
from gpt2viz.training.targets import best_of, first_view, mean_largest, most_alike, saturated_share

PERIODS = (16, 32, 64)
HEAD_ROWS = 16  # contexts of held-out text that every head is scored on
OPENING = 16  # tokens, about a typed sentence
HIGH = 0.4  # the lowest score that determines a head's role
PROMPTS = (
    *("A crane ate fish", "Once upon a time", "The king and the queen", "She sat by the river"),
    *("Alice was beginning", '"Who are you?" said', "The dog ran", "It was a dark night"),
    *("They sailed across the sea", "Mary gave John"),
)


def rows_of(model: gpt2viz.Model, text: str) -> torch.Tensor:
    """A text cut into whole contexts: token ids (rows, n_positions), the rest left out.

    A text shorter than the context is one shorter row.
    """
    ids = model.tokenizer.encode(text)
    T = min(model.config.n_positions, len(ids))
    whole = len(ids) // T
    return torch.tensor(ids[: whole * T]).view(whole, T)


def openings_of(model: gpt2viz.Model, text: str, most: int = 200) -> torch.Tensor:
    """The first ``OPENING`` tokens of up to ``most`` paragraphs that are long enough: (rows, T)."""
    T = min(OPENING, model.config.n_positions)
    paragraphs = [model.tokenizer.encode(line)[:T] for line in text.split("\n")]
    whole = [ids for ids in paragraphs if len(ids) == T] or rows_of(model, text)[:, :T].tolist()
    chosen = np.linspace(0, len(whole) - 1, min(len(whole), most)).astype(int)
    return torch.tensor([whole[n] for n in chosen])


def losses_of(model: gpt2viz.Model, rows: torch.Tensor) -> Array:
    """−ln p of every token but each row's first, in nats: (rows, T) -> (rows, T − 1)."""
    parts = [rows[n : n + 16] for n in range(0, len(rows), 16)]
    return np.concatenate([token_losses(model.network, part) for part in parts])


def bits_per_byte(model: gpt2viz.Model, rows: torch.Tensor) -> float:
    """Held-out loss: −log2 p of every token but each row's first, over those tokens' bytes."""
    return float(losses_of(model, rows).sum() / np.log(2) / _scored_bytes(model, rows))


def _scored_bytes(model: gpt2viz.Model, rows: torch.Tensor) -> int:
    """Bytes of every token but each row's first, which has no prediction."""
    return sum(len(model.tokenizer.token_bytes(i)) for i in rows[:, 1:].flatten().tolist())


def loss_by_position(model: gpt2viz.Model, rows: torch.Tensor) -> dict[str, float]:
    """Mean loss (nats a token) in eight equal stretches of the context."""
    losses = losses_of(model, rows)
    edges = np.linspace(0, losses.shape[1], 9).astype(int)
    return {
        f"{low + 1}–{high}": round(float(losses[:, low:high].mean()), 3)
        for low, high in pairwise(edges)
    }


def ngram_bits(
    model: gpt2viz.Model, corpus: Corpus, rows: torch.Tensor
) -> dict[str, dict[str, float]]:
    """Bits per byte of n-grams of order 1 to 6, by smoothing, on the tokens of ``bits_per_byte``.

    Same tokenizer, same training text, and the same context: nothing before the row.
    """
    lines = (line for book in corpus.train for line in book.split("\n") if line.strip())
    ids = np.concatenate([np.array(model.tokenizer.encode(f"{line}\n")) for line in lines])
    counts = NGrams(ids, model.config.vocab_size, order=6)
    by_smoothing = {}
    for name, smoothed in (
        ("Witten–Bell", counts.witten_bell),
        ("modified Kneser–Ney", counts.kneser_ney),
    ):
        p = smoothed(rows.numpy())[:, :, 1:]
        bits = -np.log2(p).sum(axis=(1, 2)) / _scored_bytes(model, rows)
        by_smoothing[name] = {
            str(n): round(float(value), 4) for n, value in enumerate(bits, start=1)
        }
    return by_smoothing


def overlap(model: gpt2viz.Model, corpus: Corpus) -> dict[str, float]:
    """Held-out text that is also in another book's training part, and the loss without it.

    Shares are of the runs of ``corpus.OVERLAP`` words in held-out text, over all books and in the
    book with the most; bits per byte are those without the paragraphs that have such a run.
    """
    known = known_runs(corpus.held_out, corpus.train)
    clean = without_overlap(corpus.held_out, corpus.train)
    return {
        "share": round(sum(n for n, _ in known) / max(1, sum(total for _, total in known)), 4),
        "most in a book": round(max(n / max(1, total) for n, total in known), 4),
        "bits per byte without": round(bits_per_byte(model, rows_of(model, "\n".join(clean))), 4),
    }


def repetition(model: gpt2viz.Model) -> dict[str, dict[str, float]]:
    """Losses (nats a token) in the first and second occurrence of repeated random tokens.

    One entry for every period that fits into the context twice.
    """
    by_period = {}
    for period in (p for p in PERIODS if 2 * p <= model.config.n_positions):
        rows = repeated_rows(model.config.vocab_size, 32, period, seed=2)
        losses = token_losses(model.network, rows)
        halves = {"first": losses[:, : period - 1], "second": losses[:, period:]}
        by_period[str(period)] = {
            name: round(float(part.mean()), 3) for name, part in halves.items()
        }
    return by_period


def head_scores(model: gpt2viz.Model, text: str) -> dict[str, list[list[float]]]:
    """Every head's scores, n_layer lists of nh numbers: on text, and on repeated random tokens.

    For all habits with targets; ``FIRST_OF_OPENING`` is the first-token score on texts as short as
    a sentence.
    """
    period = min(32, model.config.n_positions // 2)
    repeated = repeated_rows(model.config.vocab_size, 16, period, seed=2)
    habits = [score for score in SCORES.values() if score.targets]
    rows = rows_of(model, text)[:HEAD_ROWS]
    scores = batch_scores(model.network, {"text": rows, "probe": repeated}, habits)
    first = SCORES["first token"]
    on_openings = batch_scores(model.network, {"text": openings_of(model, text)}, [first])
    scores[FIRST_OF_OPENING] = on_openings[first.name]
    return {name: [row.round(3).tolist() for row in layers] for name, layers in scores.items()}


def weight_figures(model: gpt2viz.Model, text: str) -> dict[str, float]:
    """Figures of attention weights on text.

    In whole contexts: the cosine of the two most similar heads, and the mean largest weight of
    layer 0; over openings of paragraphs: the share of its weights that print as 0.00 or 1.00.
    """
    weights = attention_weights(model.network, rows_of(model, text)[:HEAD_ROWS])
    opened = attention_weights(model.network, openings_of(model, text))
    figures = {
        "alike": most_alike(weights),
        "largest in layer 0": mean_largest(weights[0]),
        "saturated in layer 0": saturated_share(opened[0]),
    }
    return {name: round(value, 4) for name, value in figures.items()}


def xz_bits(corpus: Corpus) -> float:
    """Bits per byte of ``xz -9`` for the held-out text, appended to the training text."""
    read, unseen = ("\n".join(texts).encode("utf-8") for texts in (corpus.train, corpus.held_out))
    alone, both = (len(lzma.compress(text, preset=9)) for text in (read, read + unseen))
    return 8 * (both - alone) / len(unseen)


def roles(scores: dict[str, list[list[float]]]) -> list[list[str]]:
    """The name of every head's highest score, "" if that is below ``HIGH``: n_layer lists of nh."""

    def role(layer: int, head: int) -> str:
        best, name = max((layers[layer][head], name) for name, layers in scores.items())
        return name if best >= HIGH else ""

    layers = next(iter(scores.values()))
    return [[role(n, h) for h in range(len(row))] for n, row in enumerate(layers)]


def continuation(model: gpt2viz.Model, prompt: str, n_tokens: int = 30, seed: int = 0) -> str:
    """Continue a prompt by sampling: temperature 0.8, top-k 40, a fixed seed."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.tensor([model.tokenizer.encode(prompt)])
    for _ in range(n_tokens):
        with torch.inference_mode():
            seen = ids[:, -model.config.n_positions :]
            logits = model.network(seen, last_only=True)[0, -1] / 0.8  # (n_vocab,)
        best = logits.topk(40)
        picked = torch.multinomial(best.values.softmax(-1), 1, generator=draw)
        ids = torch.cat([ids, best.indices[picked][None]], dim=1)
    return model.tokenizer.decode(ids[0].tolist())


def target_figures(model: gpt2viz.Model, text: str) -> dict[str, Any]:
    """The figures that ``targets.TARGETS`` need, on held-out ``text``."""
    rows = rows_of(model, text)
    return {
        "bits per byte": round(bits_per_byte(model, rows), 4),
        "loss by position": loss_by_position(model, rows),
        "repetition": repetition(model),
        "heads": head_scores(model, text),
        "weights": weight_figures(model, text),
        "first view": first_view(model),
        "bytes": 2 * sum(weight.numel() for weight in model.network.parameters()),
    }


def evaluate(model: gpt2viz.Model, corpus: Corpus, sample: str) -> dict[str, Any]:
    """All figures of the card. ``sample`` is a short text on which tests recompute some of them."""
    text = "\n".join(corpus.held_out)
    rows, few = rows_of(model, text), rows_of(model, sample)
    aimed = target_figures(model, text)
    return aimed | {
        "held-out tokens": rows.numel(),
        "held-out rows": len(rows),
        "rows that heads are scored on": min(HEAD_ROWS, len(rows)),
        "n-gram bits per byte": ngram_bits(model, corpus, rows),
        "xz bits per byte": round(xz_bits(corpus), 4),
        "bits per byte of the sample": round(bits_per_byte(model, few), 4),
        "overlap": overlap(model, corpus),
        "roles": roles(aimed["heads"]),
        "heads on the sample": head_scores(model, sample),
        "weights on the sample": weight_figures(model, sample),
        "continuations": [continuation(model, prompt) for prompt in PROMPTS],
    }


def sample_of(corpus: Corpus, n_characters: int = 1500, n_books: int = 4) -> str:
    """A little of the held-out text, a paragraph a line; deterministic."""
    return "\n".join(book[:n_characters].strip("\n") for book in corpus.held_out[:n_books])


def _compare(model: gpt2viz.Model, figures: dict[str, Any], other: Path, corpus: Corpus) -> None:
    """Print the targets for two models, and which model reaches more of them."""
    theirs = target_figures(gpt2viz.load_model(other), "\n".join(corpus.held_out))
    both = {model.name: figures, f"{other.name}, beside": theirs}
    print(f"\n{targets_text(both)}\n\nBest: {best_of(both)}")


def _list(books: list[dict[str, Any]], path: Path) -> None:
    """Write a table of books (CSV), or delete it if there are none."""
    path.unlink(missing_ok=True)
    if books:
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(("number", "title", "author", "characters"))
            table.writerows((b["gutenberg_id"], b["title"], b["author"], b["chars"]) for b in books)


def main() -> None:
    """Evaluate, print, and with ``--write`` store figures, sample and card beside the weights."""
    parser = argparse.ArgumentParser(prog="python -m gpt2viz.training.evaluate")
    parser.add_argument("--corpus", type=Path, required=True, help="the file it was trained on")
    parser.add_argument("--model", type=Path, required=True, help="checkpoint folder")
    parser.add_argument("--write", action="store_true", help="keep figures, sample, card there")
    parser.add_argument("--beside", type=Path, help="another model, to say which is better")
    parser.add_argument("--manifest", type=Path, help="JSON: gutenberg_id, title, author, chars")
    parser.add_argument("--more", type=Path, help="the same of further books, of --more's file")
    parser.add_argument("--hardware", help="what it was trained on, for the card")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.write and not (arguments.manifest and arguments.hardware):
        parser.error("--write needs --manifest and --hardware, for the card")
    torch.set_num_threads(arguments.threads)
    try:
        model, corpus = gpt2viz.load_model(arguments.model), read_corpus(arguments.corpus)
    except gpt2viz.GPT2VizError as error:
        sys.exit(str(error))
    if arguments.write:
        run = json.loads((arguments.model / "training.json").read_text(encoding="utf-8"))
        if "training tokens" not in run:
            parser.error("another recipe made this model; its card can't be written from this one")
    sample = sample_of(corpus)
    figures = evaluate(model, corpus, sample)
    print(figures_text(figures))
    if arguments.beside:
        _compare(model, figures, arguments.beside, corpus)
    if arguments.write:
        books, more = (
            json.loads(path.read_text(encoding="utf-8")) if path else []
            for path in (arguments.manifest, arguments.more)
        )
        card = model_card(figures, model.config, books, more, run, arguments.hardware)
        _list(more, arguments.model / FURTHER)
        stored = json.dumps(figures, indent=1, ensure_ascii=False) + "\n"
        for name, text in (
            ("sample.txt", sample),
            ("evaluation.json", stored),
            ("README.md", card),
        ):
            (arguments.model / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
