"""``python -m gpt2viz.training.held_out --corpus FILE --out FOLDER``: the held-out texts.

These texts are for measuring a model and are never trained on.

One text file for each book of the corpus, numbered in its order, from 0.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from tokenizers import ByteLevelBPETokenizer

from gpt2viz.training.batches import Ids
from gpt2viz.training.corpus import Corpus, CorpusError, read_corpus

#: Contexts that a training run is measured on.
HELD_OUT_ROWS = 32


def write_held_out(corpus: Path, folder: Path) -> list[Path]:
    """Write the held-out end of every book to a file of its own; their paths, in order.

    Raises ``CorpusError`` for a corpus that can't be read, or a folder that already holds texts.
    """
    texts = read_corpus(corpus).held_out
    if any(folder.glob("*.txt")):
        raise CorpusError(f"{folder}: holds texts already")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{n:04}.txt" for n in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def held_out_rows(tokenizer: ByteLevelBPETokenizer, corpus: Corpus, n_positions: int) -> Ids:
    """Up to ``HELD_OUT_ROWS`` whole contexts (rows, T) of the text that is never trained on."""
    ends = tokenizer.encode_batch(corpus.held_out)
    held = np.concatenate([np.array(encoding.ids, np.int64) for encoding in ends])
    n_rows = len(held) // n_positions
    held = held[: n_rows * n_positions].reshape(n_rows, n_positions)
    chosen = np.linspace(0, n_rows - 1, min(n_rows, HELD_OUT_ROWS)).astype(int)
    rows: Ids = held[chosen]
    return rows


def main() -> None:
    """Write the files, from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m gpt2viz.training.held_out", description=__doc__
    )
    parser.add_argument("--corpus", type=Path, required=True, help="text file, plain or .xz")
    parser.add_argument("--out", type=Path, required=True, help="folder for the texts")
    given = parser.parse_args()
    try:
        print(f"{len(write_held_out(given.corpus, given.out))} texts in {given.out}")
    except CorpusError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
