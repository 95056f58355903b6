"""Find a planted change of one head, over and over: ``python -m benchmarks.changes``.

The bundled model, or the named one, is changed in one head (random queries, and four training steps
of its output) and compared with the original: is that head ranked first, and how much of the change
does restoring it undo? Then a comparison of two steps of the bundled model's training is timed
beside two surveys of the same texts, in processor seconds of one thread.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import gpt2viz
from benchmarks.tables import spread
from gpt2viz.settings import BUNDLED
from gpt2viz.survey.changes import compare_models
from gpt2viz.survey.documents import Corpus
from gpt2viz.survey.engines import local
from gpt2viz.survey.run import survey
from gpt2viz.survey.stored import read_survey
from tests.survey.test_changes import plant_head


def passages(folder: Path) -> Path:
    """Write the passages of the bundled model's survey into a file for each document."""
    model = gpt2viz.load_model()
    sizes = model.config.n_layer, model.config.n_head
    made = read_survey(BUNDLED, model.weight_files, *sizes) if model.weight_files else None
    for passage in made.best if made else ():
        with (folder / f"{passage.document}.txt").open("a", encoding="utf-8") as file:
            file.write(passage.text + "\n")
    return folder


def plant(name: str, texts: Path, seeds: int) -> None:
    """Print how often the planted head is first, and the share that restoring it undoes."""
    model = gpt2viz.load_model(name)
    first, back = 0, []
    documents = [path.read_text(encoding="utf-8")[:400] for path in sorted(texts.iterdir())[:12]]
    for seed in range(seeds):
        draw = np.random.default_rng(seed)
        head = (int(draw.integers(model.config.n_layer)), int(draw.integers(model.config.n_head)))
        changes = compare_models(model, plant_head(model, *head, seed, steps=4), documents)
        first += changes.heads[0][:2] == head
        restored = changes.restore()
        back.append(float(restored.undone[1]) if restored.pieces[0] == head else 0.0)
        print(f"{name} {seed}: {head} first {first}, gives back {back[-1]:.4f}", flush=True)
    print(f"| {name} | {first} of {seeds} | {100 * min(back):.1f} % to {100 * max(back):.1f} % |")


def beside_surveys(texts: Path, rounds: int) -> None:
    """Print the times of a comparison and of two surveys of the same texts, and their ratio."""
    steps = list(gpt2viz.load_steps())[-2:]
    took: list[tuple[float, float]] = []
    for _ in range(rounds):
        with TemporaryDirectory() as folder:
            start = time.process_time()
            for step in steps:
                out = Path(folder) / str(step)
                survey(Corpus(texts), BUNDLED, out, 64, "cpu", local(1), step=step)
            middle = time.process_time()
            pair = [(BUNDLED, step) for step in steps]
            changes = compare_models(
                pair[0], pair[1], texts, out=Path(folder) / "changes", engine=local(1)
            )
            took.append((middle - start, time.process_time() - middle))
    surveys, comparison = zip(*took, strict=True)
    ratio = [b / a for a, b in took]
    print(f"{changes.n_passages:,} passages of {changes.n_documents} documents")
    print(f"| two surveys | {spread(surveys)} |\n| a comparison | {spread(comparison)} |")
    print(f"| ratio | {spread(ratio)} |")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.changes", description=__doc__)
    parser.add_argument("--model", default=BUNDLED.name)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3, help="of the surveys; 0 leaves them out")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        texts = passages(Path(folder))
        if given.seeds:
            plant(given.model, texts, given.seeds)
        if given.rounds:
            beside_surveys(texts, given.rounds)


if __name__ == "__main__":
    main()
