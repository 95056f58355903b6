"""``python -m gpt2viz.training --corpus FILE --out FOLDER``: from a corpus to a checkpoint folder.

The run's state is kept in ``--work``; the same command resumes after an interruption.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer

from gpt2viz.anatomy.training_record import RECORD
from gpt2viz.errors import GPT2VizError
from gpt2viz.files import whole
from gpt2viz.training.batches import Ids, Stream, Text
from gpt2viz.training.checkpoint import export, load_bpe, save_bpe, train_bpe
from gpt2viz.training.corpus import Corpus, read_corpus, without_overlap
from gpt2viz.training.held_out import held_out_rows
from gpt2viz.training.recipe import Recipe
from gpt2viz.training.train import MILESTONE, STATE, Trainer


def tokenize(
    corpus: Corpus, more: Corpus | None, recipe: Recipe, folder: Path
) -> tuple[Stream, Ids]:
    """Learn the BPE, or read it if ``folder`` has it, and encode: (training, held-out rows).

    ``more`` are further books, only for training. The tokens are kept in ``folder`` too.
    """
    if not (folder / "merges.txt").is_file():
        save_bpe(train_bpe(corpus.train, recipe.vocab_size), folder)
    tokenizer = load_bpe(folder)
    own = encode(tokenizer, without_overlap(corpus.train, corpus.held_out), folder / "own.npz")
    books = () if more is None else (*more.train, *more.held_out)
    further = None
    if books:
        further = encode(tokenizer, without_overlap(books, corpus.held_out), folder / "more.npz")
    held_out = held_out_rows(tokenizer, corpus, recipe.n_positions)
    return Stream(own, further, recipe.vocab_size), held_out


def encode(tokenizer: ByteLevelBPETokenizer, books: tuple[str, ...], path: Path) -> Text:
    """The tokens of all paragraphs, each with its line's end; read from ``path`` if it exists.

    Raises ``GPT2VizError`` if it holds those of other texts.
    """
    digest = sha256("\n".join(books).encode()).hexdigest()
    if not path.is_file():
        lines = [f"{line}\n" for book in books for line in book.split("\n") if line.strip()]
        rows = [np.array(encoding.ids, np.uint16) for encoding in tokenizer.encode_batch(lines)]
        starts = np.cumsum([0, *(len(row) for row in rows[:-1])])
        with whole(path) as partial, partial.open("wb") as file:
            np.savez(file, ids=np.concatenate(rows), starts=starts, texts=digest)
    with np.load(path) as stored:
        if stored["texts"] != digest:
            raise GPT2VizError(f"{path} holds the tokens of other texts; delete it")
        return Text(stored["ids"], stored["starts"])


def main() -> None:
    """Train or resume training, and write the checkpoint after every report."""
    parser = argparse.ArgumentParser(prog="python -m gpt2viz.training", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="text file, plain or .xz")
    parser.add_argument("--more", type=Path, help="further books, all of them to train on")
    parser.add_argument("--tokenizer", type=Path, help="folder with merges to use again")
    parser.add_argument(
        "--out", type=Path, required=True, help="checkpoint folder to write; steps/step-N below it"
    )
    parser.add_argument("--work", type=Path, default=Path("runs/stories"), help="state of the run")
    parser.add_argument("--milestone", type=Path, help="of another machine, to go on from")
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
    more = read_corpus(arguments.more) if arguments.more else None
    if arguments.tokenizer and not (arguments.work / "merges.txt").is_file():
        save_bpe(load_bpe(arguments.tokenizer), arguments.work)
    stream, held_out = tokenize(corpus, more, recipe, arguments.work)
    sizes = {"own": len(stream.own.ids), "more": len(stream.more.ids) if stream.more else 0}
    print(
        f"{sizes['own']:,} training tokens and {sizes['more']:,} of further books; the run reads "
        f"{recipe.tokens:,}",
        flush=True,
    )
    if arguments.milestone and not {STATE, MILESTONE} & {p.name for p in arguments.work.iterdir()}:
        shutil.copy(arguments.milestone, arguments.work / MILESTONE)
    trainer = Trainer(recipe, stream, held_out, arguments.work, arguments.device)

    def report(line: str) -> None:
        print(line, flush=True)
        folders = [arguments.out]
        if trainer.step in recipe.points:  # the model whose heads were just measured
            folders.append(arguments.out / "steps" / f"step-{trainer.step}")
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            save_bpe(load_bpe(arguments.work), folder)
            export(trainer.network, folder)
        curves = {
            "seconds": round(trainer.seconds),
            "training tokens": sizes,
            "held-out rows": len(held_out),
            "curves": trainer.curves,
        }
        with whole(arguments.out / RECORD) as partial:
            partial.write_text(json.dumps(curves), encoding="utf-8")

    trainer.advance(
        min(arguments.steps or recipe.steps, recipe.steps), report, every=arguments.every
    )


if __name__ == "__main__":
    main()
