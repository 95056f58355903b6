"""``python -m gpt2viz.training --corpus FILE --out FOLDER``: from a corpus to a checkpoint folder.

The run's state is kept under ``--work``; the same command goes on where it was cut off.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch

from gpt2viz.curves import RECORD
from gpt2viz.errors import GPT2VizError
from gpt2viz.files import whole
from gpt2viz.training.batches import Ids, Stream
from gpt2viz.training.bpe import load_bpe, save_bpe, train_bpe
from gpt2viz.training.corpus import Corpus, read_corpus
from gpt2viz.training.export import export
from gpt2viz.training.recipe import Recipe
from gpt2viz.training.start import SET_HEAD
from gpt2viz.training.train import Trainer

HELD_OUT_ROWS = 32


def tokenize(corpus: Corpus, recipe: Recipe, folder: Path) -> tuple[Stream, Ids]:
    """Learn the BPE, or read it where ``folder`` has it, and encode: (training, held-out rows)."""
    if not (folder / "merges.txt").is_file():
        save_bpe(train_bpe(corpus.train, recipe.vocab_size), folder)
    tokenizer = load_bpe(folder)

    def encode(texts: tuple[str, ...]) -> list[list[int]]:
        return [encoding.ids for encoding in tokenizer.encode_batch(texts)]

    paragraphs = [line for book in corpus.train for line in book.split("\n") if line.strip()]
    rows = encode(tuple(f"{line}\n" for line in paragraphs))
    starts = np.cumsum([0, *(len(row) for row in rows[:-1])])
    ids = np.concatenate([np.array(row, np.int64) for row in rows])
    T = recipe.n_positions
    held = np.concatenate([np.array(row, np.int64) for row in encode(corpus.held_out)])
    n_rows = len(held) // T
    held = held[: n_rows * T].reshape(n_rows, T)
    chosen = np.linspace(0, n_rows - 1, min(n_rows, HELD_OUT_ROWS)).astype(int)
    return Stream(ids, starts, recipe.vocab_size), held[chosen]


def main() -> None:
    """Train, or go on training, and write the checkpoint after every report."""
    parser = argparse.ArgumentParser(prog="python -m gpt2viz.training", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="text file, plain or .xz")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument("--work", type=Path, default=Path("runs/stories"), help="state of the run")
    parser.add_argument("--steps", type=int, help="stop here, to go on later")
    parser.add_argument("--every", type=int, default=250, help="steps between reports")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    arguments = parser.parse_args()
    try:
        run(arguments)
    except GPT2VizError as error:
        sys.exit(str(error))
    except OSError as error:  # a full disk, a folder that may not be written
        sys.exit(f"{error}. The last state that was saved is kept; the same command goes on.")


def run(arguments: argparse.Namespace) -> None:
    """Train with the command line's settings.

    Raises ``GPT2VizError`` for a corpus or a state that can't be used, ``OSError`` where a file
    can't be written.
    """
    torch.set_num_threads(arguments.threads)
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.out.mkdir(parents=True, exist_ok=True)

    recipe = Recipe()
    corpus = read_corpus(arguments.corpus)
    stream, held_out = tokenize(corpus, recipe, arguments.work)
    print(f"{len(stream.ids):,} training tokens; the run reads {recipe.tokens:,}", flush=True)
    trainer = Trainer(recipe, stream, held_out, arguments.work, arguments.device)

    def report(line: str) -> None:
        print(line, flush=True)
        save_bpe(load_bpe(arguments.work), arguments.out)
        export(trainer.network, arguments.out)
        curves = {
            "seconds": round(trainer.seconds),
            "set_heads": [list(SET_HEAD)],
            "curves": trainer.curves,
        }
        with whole(arguments.out / RECORD) as partial:
            partial.write_text(json.dumps(curves), encoding="utf-8")

    trainer.advance(
        min(arguments.steps or recipe.steps, recipe.steps), report, every=arguments.every
    )


if __name__ == "__main__":
    main()
