"""``python -m gpt2viz.survey --texts FILE --out FOLDER``: every head's scores across many texts.

FILE has one document a line; a folder of .txt files does too. What is done is kept in FOLDER:
the same command goes on where it was cut off. In MODEL/survey the app finds it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpt2viz
from gpt2viz.across import RECORD, fingerprint, weights_fingerprint
from gpt2viz.errors import GPT2VizError, SurveyError
from gpt2viz.files import read_json, whole
from gpt2viz.survey.documents import shards
from gpt2viz.survey.engines import Engine, Task, local, on_ray
from gpt2viz.survey.sums import load, merged, save
from gpt2viz.survey.tables import write


def survey(
    texts: Path,
    model: Path,
    out: Path,
    n_tokens: int,
    device: str,
    engine: Engine,
    about: str = "",
) -> int:
    """Score what isn't scored yet, then merge all shards and write the tables: how many shards.

    ``about`` says in words what the texts are, for those who see the result. Raises
    ``SurveyError`` where ``out`` holds another survey, there is no text, passages are longer than
    the model's context, or a machine has no such ``device``; and what ``load_model`` raises.
    """
    n_positions = gpt2viz.load_model(model).config.n_positions
    if not 2 <= n_tokens <= n_positions:
        raise SurveyError(f"--tokens must be from 2 to {n_positions} for this model.")
    n_shards = sum(1 for _ in shards(texts))
    if not n_shards:
        raise SurveyError(f"{texts}: holds no text")
    out.mkdir(parents=True, exist_ok=True)
    _same_survey(
        out / RECORD,
        {
            "texts": fingerprint([texts] if texts.is_file() else sorted(texts.rglob("*.txt"))),
            "model": weights_fingerprint(model),
            "tokens": n_tokens,
        },
        about,
    )

    def missing() -> Iterator[Task]:
        for shard in shards(texts):
            if not _path(out, shard.number).is_file():
                yield Task(model, n_tokens, device, shard)

    for number, sums in engine(missing()):
        save(sums, _path(out, number))
        print(f"shard {number} of 0 to {n_shards - 1} is done", flush=True)
    write(merged(load(_path(out, number)) for number in range(n_shards)), out)
    return n_shards


def _path(out: Path, number: int) -> Path:
    return out / f"shard-{number:06}.npz"


def _same_survey(path: Path, wanted: dict[str, Any], about: str) -> None:
    made = read_json(path) if path.is_file() else wanted
    if {name: made.get(name) for name in wanted} != wanted:
        raise SurveyError(
            f"{path.parent} holds a survey of other texts, another model or passages of another "
            "length. Choose another folder with --out."
        )
    with whole(path) as partial:
        partial.write_text(json.dumps(wanted | {"about": about}), encoding="utf-8")


def main() -> None:
    """Run a survey from the command line."""
    parser = argparse.ArgumentParser(prog="python -m gpt2viz.survey", description=__doc__)
    parser.add_argument("--texts", type=Path, required=True, help="file or folder of texts")
    parser.add_argument("--out", type=Path, required=True, help="folder for tables and shards")
    parser.add_argument("--model", type=Path, default=gpt2viz.BUNDLED, help="checkpoint folder")
    parser.add_argument("--tokens", type=int, default=64, help="tokens in a passage")
    parser.add_argument("--about", default="", help="what the texts are, to be shown in the app")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    parser.add_argument("--address", help="of a Ray cluster; without it Ray starts a local one")
    given = parser.parse_args()
    try:
        engine = (
            on_ray(given.workers, given.address) if given.engine == "ray" else local(given.workers)
        )
        where = (given.texts, given.model, given.out)
        n = survey(*where, given.tokens, given.device, engine, given.about)
    except ModuleNotFoundError:
        sys.exit("--engine ray needs Ray: pip install ray")
    except GPT2VizError as error:
        sys.exit(str(error))
    except OSError as error:  # a full disk, a folder that may not be written
        sys.exit(f"{given.out}: can't be written ({error}). What is done is kept.")
    print(f"{n} shards; tables in {given.out}")


if __name__ == "__main__":
    main()
