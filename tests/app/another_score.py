"""``python -m tests.app.another_score FOLDER``: the app with one head score more, in JSON.

The score is declared in one place, before anything else reads the registry; ``FOLDER`` is an
empty one to work in. Prints what the pages, the command line, a training and the guide have then.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from gpt2viz.analysis import scores

NAME, TEXT = "second token", "A crane ate fish by the river"
MORE = scores.Score(
    NAME,
    "mean over queries t ≥ 1 of w(t, 1)",
    "It looks at token 1.",
    scores.WeightOn(lambda ids: np.tile(np.arange(len(ids)) == 1, (len(ids), 1))),
    source="Nobody 2026, A Score for This Test",
    record="second",
    term="causal-mask",
)


def find(**parameters: str) -> dict[str, Any]:
    """What the page Find shows of it."""
    from tests.app.pages import array, figure, open_page, plain

    at = open_page("find", text=TEXT, habit=NAME, **parameters)
    at.session_state["words_panel"] = True
    at.run()
    atlas = figure(at, "atlas_maps")
    maps = {one["name"]: array(one["z"]) for one in atlas["data"] if one["meta"] == NAME}
    return {
        "maps": {
            name: None if np.isnan(found).all() else found.tolist() for name, found in maps.items()
        },
        "notes": [note["text"] for note in atlas["layout"]["annotations"]],
        "ranked": list(at.dataframe[0].value.columns) if at.dataframe else [],
        "said": [plain(f"{block.value} {block.help}") for block in at.markdown],
        "info": [block.value for block in at.info],
        "warnings": [block.value for block in at.warning],
    }


def surveyed(folder: Path) -> tuple[str, list[str]]:
    """What ``gpt2viz heads`` prints for a tiny model, and the scores in the survey it leaves."""
    from click.testing import CliRunner

    from gpt2viz.cli import main
    from tests.checkpoints import write_checkpoint

    write_checkpoint(folder / "tiny")
    corpus, out = folder / "texts.txt", folder / "tiny" / "survey"
    corpus.write_text(f"{TEXT}. {TEXT}.\n", encoding="utf-8")
    asked = ["heads", "--corpus", corpus, "--model", folder / "tiny", "--out", out]
    result = CliRunner().invoke(main, [*map(str, asked), "--tokens", "12", "--workers", "1"])
    table = (out / "heads.csv").read_text(encoding="utf-8").splitlines()[1:]
    return result.stdout, sorted({line.split(",")[0].strip('"') for line in table})


def trained(folder: Path) -> list[str]:
    """Leaves a record of a training beside the tiny model; the scores that its card would list."""
    import gpt2viz
    from gpt2viz.training.evaluate import head_scores
    from gpt2viz.training.train import measure

    model = gpt2viz.load_model(folder)
    ids = model.tokenizer.encode(TEXT)
    point = {"tokens": 10, **measure(model.network, np.array([ids, ids[::-1]]))}
    (folder / "training.json").write_text(json.dumps({"curves": [point]}), encoding="utf-8")
    return list(head_scores(model, TEXT))


def followed(**parameters: str) -> list[str]:
    """The scores that the page Training offers."""
    from tests.app.pages import open_page

    groups = open_page("training", **parameters).get("button_group")
    (offered,) = [group.proto for group in groups if group.proto.id.endswith("-score")]
    return [option.content for option in offered.options]


def main(folder: Path) -> None:
    """Declare the score, then print what everything else makes of it."""
    scores.DECLARED = (*scores.DECLARED, MORE)
    scores.SCORES._known[MORE.name] = MORE
    printed, stored = surveyed(folder)
    from gpt2viz.model.checkpoint import BUNDLED
    from gpt2viz.settings import MODELS_VARIABLE
    from tests.docs.tables import scores as table

    os.environ[MODELS_VARIABLE] = str(folder / "tiny")
    seen = {
        "on the card": trained(folder / "tiny"),
        "printed": printed,
        "stored": stored,
        "bundled": {
            "sentence": find(model=BUNDLED.name, on="sentence"),
            "survey": find(model=BUNDLED.name, on="texts"),
        },
        "tiny": {"survey": find(model="tiny", on="texts")},
        "followed": {"bundled": followed(model=BUNDLED.name), "tiny": followed(model="tiny")},
        "in the guide": table().splitlines()[-1],
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
