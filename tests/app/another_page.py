"""A copy of the app with an additional page, parameter and stage, and checks of them.

``add_declarations`` declares them in the copy and adds a view and a script. In the copy,
``python -m tests.app.another_page`` prints in JSON what a visitor of the page then gets.
"""

from __future__ import annotations

import json
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]

#: A file -> blocks of lines to insert before a block's last line, which the file already has.
MORE = {
    "app/pages": """    WEATHER := Page("Fair weather", what="how warm it is", words="token head"),
    MODELS := """,
    "app/parameters": """    DEGREES := SelectParam("degrees", "How warm", (pages.WEATHER,), 20),
    CHAPTER := """,
    "model/network": """        self.capped_scores = nn.Identity()
        self.masked_scores =

        scaled = self.capped_scores(2 * torch.tanh(scaled / 2))
        masked =""",
    "run/stages": """        "capped_scores", "Capped scores", "2 tanh(x / 2)",
        "h.*.attn.attend.capped_scores", ("scaled_scores",), _PAIRS,
        llama="layers.*.self_attn.attend.capped_scores"),
    Stage(
        "masked_scores",""",
}
VIEW = '''"""Fair weather: how warm it is."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address, pages, parameters, prose
from gpt2viz.app.frame import page


def show() -> None:
    """Draw the page."""
    view = page.open_page(pages.WEATHER)
    warm: int = st.selectbox("Degrees", **address.choice(parameters.DEGREES, [10, 20, 30]))
    prose.markdown(f"{view.n_tokens} tokens at {warm} degrees.")
'''
SCRIPT = '''"""Fair weather: how warm it is."""

from gpt2viz.app.views import fair_weather

fair_weather.show()
'''


def add_declarations(folder: Path) -> None:
    """Copy the app into a folder, and add the page, parameter and stage."""
    for name in ("gpt2viz", "pages", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("node_modules"))
    shutil.copy(ROOT / "app.py", folder)
    (folder / "assets").symlink_to(ROOT / "assets")
    for name, blocks in MORE.items():
        path = folder / f"gpt2viz/{name}.py"
        declared = path.read_text(encoding="utf-8")
        for block in blocks.split("\n\n"):
            *_, last = block.splitlines()
            assert declared.count(last) == 1
            declared = declared.replace(last, block)
        path.write_text(declared, encoding="utf-8")
    start, read, rest = path.read_text(encoding="utf-8").rpartition('("scaled_scores",)')
    path.write_text(f"{start}{read.replace('scaled', 'capped')}{rest}", encoding="utf-8")
    (folder / "gpt2viz/app/views/fair_weather.py").write_text(VIEW, encoding="utf-8")
    (folder / "pages/fair_weather.py").write_text(SCRIPT, encoding="utf-8")


def visit_page() -> dict[str, object]:
    """Visit the page in the copy, in which this runs; what it shows."""
    import pytest

    from gpt2viz.app import server
    from tests.app.pages import chips, open_page
    from tests.docs.tables import address

    pytest.MonkeyPatch().setattr(server, "_limited", True)  # as on a server of gpt2viz's own
    at = open_page("fair_weather", text="A crane ate fish", degrees="30", query="1")
    links = {link.proto.label: link.proto for link in at.get("page_link")}
    menu = next(link for label, link in links.items() if label.startswith("**Fair weather**"))
    drawn, read = chips(at), [block.value for block in at.markdown]
    at.session_state["words_panel"] = True
    words = next(b.value for b in at.run().markdown if "On this page" in b.value)
    at.selectbox(key="degrees").select(10).run()
    elsewhere = open_page("attention", degrees="30")
    carried = [link.proto.query_string for link in elsewhere.get("page_link")]
    odd = open_page("fair_weather", degrees="7")
    return {
        "menu": [menu.label, menu.page],
        "chips": len(drawn["labels"]),
        "read": read,
        "address": at.query_params["degrees"],
        "kept": all("degrees=30" in query for query in carried),
        "odd": [odd.session_state["degrees"], *(warning.value for warning in odd.warning)],
        "words": words,
        "table": address(),
    }


def check_stage() -> None:
    """Everything that shows stages has the additional one, between its neighbours."""
    import gpt2viz
    from gpt2viz.cli import main
    from gpt2viz.textbook.diagram import edges
    from tests.app.pages import heatmaps, open_page
    from tests.app.test_frame import choices, open_save
    from tests.docs.tables import stages

    key: Any = "capped_scores"
    text, chosen = "A crane ate fish", {"layer": "0", "head": "4"}
    run, long = (
        gpt2viz.trace(gpt2viz.load_model(), text, explicit=explicit) for explicit in (True, False)
    )
    order = ["scaled_scores", key, "masked_scores"]
    assert [r.key for r in run.tensors if r.layer == 0 and r.key in order] == order
    attend = [f"h.0.attn.attend.{stage}" for stage in order]
    assert {*pairwise(attend)} == {arrow for arrow in edges([0], run.graph) if attend[1] in arrow}
    at = open_page("head", text=text, **chosen)
    titles = [m for m in at.markdown if m.help.startswith("(B, nh, T, ")]
    labels = ["Scaled scores", "Capped scores", "Masked scores"]
    assert [title.value.split("**")[1] for title in titles[4:7]] == labels
    assert titles[5].value == "→ **Capped scores**  \n:small[2 tanh(x / 2)]"
    assert titles[5].help.endswith("`scaled = self.capped_scores(2 * torch.tanh(scaled / 2))`")
    pictures = choices(open_save("head", **chosen))["save_picture"]
    names = [name.partition(" of layer")[0] for name in pictures]
    assert [names[0], *names[5:8]] == ["Attention weights", *labels]
    printed = CliRunner().invoke(main, ["trace", text, "-s", key, "-H", "4", "--json"]).stdout
    shown = heatmaps(at, f"stage_{key}")[key]
    expected = 2 * np.tanh(run.stage("scaled_scores", 0, 4) / 2)
    for numbers in (shown, json.loads(printed)["values"], long.stage(key, 0, 4)):
        np.testing.assert_allclose(numbers, expected, atol=1e-5)
    assert (key, 0) in run.captured  # so a saved run has it
    row = "| `capped_scores` | Capped scores | 2 tanh(x / 2) | (B, nh, T, T) |  |"
    assert row in stages().splitlines()


if __name__ == "__main__":
    visited = visit_page()
    check_stage()
    # Importing it takes two seconds.
    assert "torch._dynamo" not in sys.modules
    print(json.dumps(visited))
