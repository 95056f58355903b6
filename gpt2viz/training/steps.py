"""``python -m gpt2viz.training.steps --corpus FILE --run OUT --model FOLDER``: checkpoints to ship.

Some of the checkpoints that a training run kept in ``OUT/steps`` are chosen, packed into a few bits
per number and written to ``FOLDER/steps``, beside the final model. Each is measured again as
stored, and ``training.json`` there holds the results: so the numbers shown of a checkpoint are
those of the weights that are shipped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gpt2viz
from gpt2viz.analysis.scores import recorded_scores
from gpt2viz.anatomy.training_record import RECORD
from gpt2viz.files import read_json, whole
from gpt2viz.model.packed import BITS, write_packed
from gpt2viz.model.steps import FOLDER, INDEX
from gpt2viz.training.batches import Ids
from gpt2viz.training.checkpoint import load_bpe
from gpt2viz.training.corpus import read_corpus
from gpt2viz.training.held_out import held_out_rows
from gpt2viz.training.train import measure

COUNT = 12
#: Fields of a training curve's point that are copied, not measured again.
_WHEN = ("step", "tokens", "train_loss")


def pick(points: Sequence[Mapping[str, Any]], count: int) -> list[int]:
    """Steps of a training's ``points``, in order: the first, the last, and those between them that
    are farthest from all chosen before.

    The distance of consecutive points is half the growth of log(step) and half the mean change of
    the heads' scores, each as a share of its total over the run: so points are dense where the
    heads change.
    """
    steps = [int(point["step"]) for point in points]
    scores = np.array([[np.ravel(point[s.record]) for s in recorded_scores()] for point in points])
    changed = np.abs(np.diff(scores, axis=0)).mean(axis=(1, 2))  # (P − 1,)
    far = np.zeros(len(steps) - 1)
    for part in (changed, np.diff(np.log(steps))):
        far += part / (part.sum() or 1)
    along = np.concatenate([[0.0], np.cumsum(far)])  # (P,)
    chosen = {0, len(steps) - 1}
    while len(chosen) < min(count, len(steps)):
        apart = np.abs(along[:, None] - along[sorted(chosen)]).min(axis=1)
        apart[sorted(chosen)] = -1
        chosen.add(int(apart.argmax()))
    return [steps[n] for n in sorted(chosen)]


def keep_steps(
    run: Path, folder: Path, held_out: Ids, count: int = COUNT, bits: int = BITS
) -> list[int]:
    """Write ``count`` of a ``run``'s checkpoints beside the model in ``folder``; return the steps.

    They are measured on ``held_out`` (rows, T). Raises ``GPT2VizError`` if the model isn't
    identical to the run's last checkpoint, or the folder already has packed checkpoints.
    """
    checkpoints, model = gpt2viz.load_steps(run), gpt2viz.load_model(folder)
    stored = read_json(run / RECORD)
    points = {int(p["step"]): p for p in stored["curves"] if int(p["step"]) in checkpoints}
    last = max(points, default=0)
    if not last or last != max(checkpoints) or not _equal_models(model, checkpoints[last]):
        raise gpt2viz.CheckpointError(f"{folder}: not the model that {run} ended with")
    if (folder / FOLDER).exists():
        raise gpt2viz.CheckpointError(f"{folder / FOLDER}: there are checkpoints already")
    (folder / FOLDER).mkdir()
    chosen = pick([points[step] for step in sorted(points)], count)
    for step in chosen[:-1]:
        weights = dict(checkpoints[step].network.named_parameters())
        write_packed(weights, folder / FOLDER / f"step-{step}.safetensors", bits)
    _write(folder / FOLDER / INDEX, {"model": last})
    curves = []
    for step, shipped in gpt2viz.load_steps(folder).items():
        when = {name: points[step][name] for name in _WHEN}
        curves.append(when | measure(shipped.network, held_out))
    record = {"held-out rows": len(held_out), "curves": curves}
    _write(folder / FOLDER / RECORD, record)
    return chosen


def _equal_models(model: gpt2viz.Model, other: gpt2viz.Model) -> bool:
    weights, others = model.network.state_dict(), other.network.state_dict()
    same = [torch.equal(weight, others[name]) for name, weight in weights.items() if name in others]
    return model.config == other.config and all(same)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with whole(path) as partial:
        partial.write_text(json.dumps(content) + "\n", encoding="utf-8")


def main() -> None:
    """Choose, pack, measure and write, from the command line."""
    parser = argparse.ArgumentParser(prog="python -m gpt2viz.training.steps", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="the file it was trained on")
    parser.add_argument("--run", type=Path, required=True, help="what the training wrote to --out")
    parser.add_argument("--model", type=Path, required=True, help="folder of the model that ships")
    parser.add_argument("--count", type=int, default=COUNT, help="how many, the model among them")
    parser.add_argument("--bits", type=int, default=BITS, choices=range(2, 9), help="a number")
    given = parser.parse_args()
    try:
        n_positions = gpt2viz.load_model(given.model).config.n_positions
        held_out = held_out_rows(load_bpe(given.model), read_corpus(given.corpus), n_positions)
        chosen = keep_steps(given.run, given.model, held_out, given.count, given.bits)
    except gpt2viz.GPT2VizError as error:
        sys.exit(str(error))
    written = sorted((given.model / FOLDER).iterdir())
    print(f"steps {', '.join(map(str, chosen))}")
    print("\n".join(f"{path.name}: {path.stat().st_size:,} bytes" for path in written))


if __name__ == "__main__":
    main()
