"""A copy of the app with one page and one parameter more, and what a visitor finds there.

``added`` declares the page in the copy's ``app/pages.py`` and the parameter in its
``app/parameters.py``, and adds a view and a script. ``python -m tests.app.another_page`` in the
copy prints in JSON what it has then.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]

PAGE = """    WEATHER := Page("Fair weather", what="how warm it is", words="token head"),
    MODELS := """
PARAMETER = """    DEGREES := SelectParam("degrees", "How warm it is", 20, on=(pages.WEATHER,)),
    CHAPTER := """
VIEW = '''"""Fair weather: how warm it is."""

from __future__ import annotations

import streamlit as st

from gpt2viz.app import address, pages, parameters, prose
from gpt2viz.app.frame import page


def show() -> None:
    """Draw the page."""
    view = page.open_page(pages.WEATHER)
    offered = [10, 20, 30]
    bound = address.choice(parameters.DEGREES, offered)
    warm: int = st.selectbox("Degrees", offered, **bound)
    prose.markdown(f"{view.n_tokens} tokens at {warm} degrees.")
'''
SCRIPT = '''"""Fair weather: how warm it is."""

from gpt2viz.app.views import fair_weather

fair_weather.show()
'''


def added(folder: Path) -> None:
    """Copy the app into a folder, and add the page and the parameter, each in its place."""
    for name in ("gpt2viz", "pages", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "app.py", folder)
    (folder / "assets").symlink_to(ROOT / "assets")
    for name, more in (("pages", PAGE), ("parameters", PARAMETER)):
        path = folder / f"gpt2viz/app/{name}.py"
        declared = path.read_text(encoding="utf-8")
        assert declared.count(more.splitlines()[-1]) == 1
        path.write_text(declared.replace(more.splitlines()[-1], more), encoding="utf-8")
    (folder / "gpt2viz/app/views/fair_weather.py").write_text(VIEW, encoding="utf-8")
    (folder / "pages/fair_weather.py").write_text(SCRIPT, encoding="utf-8")


def found() -> dict[str, object]:
    """What a visitor of the copy, in which this runs, finds of both."""
    import pytest

    from gpt2viz.app import server
    from tests.app.pages import chips, open_page
    from tests.docs.address import table

    pytest.MonkeyPatch().setattr(server, "_limited", True)  # as on a server of gpt2viz's own
    at = open_page("fair_weather", text="A crane ate fish", degrees="30", query="1")
    links = {link.proto.label: link.proto for link in at.get("page_link")}
    menu = next(link for label, link in links.items() if label.startswith("**Fair weather**"))
    drawn, read = chips(at), [block.value for block in at.markdown]
    at.session_state["words_panel"] = True
    words = next(b.value for b in at.run().markdown if "On this page" in b.value)
    at.selectbox(key="degrees").select(10).run()
    elsewhere = open_page("attention", degrees="30")
    kept = [link.proto.query_string for link in elsewhere.get("page_link")]
    odd = open_page("fair_weather", degrees="7")
    return {
        "menu": [menu.label, menu.page],
        "chips": len(drawn["labels"]),
        "read": read,
        "address": at.query_params["degrees"],
        "kept": all("degrees=30" in query for query in kept),
        "odd": [odd.session_state["degrees"], *(warning.value for warning in odd.warning)],
        "words": words,
        "table": table(),
    }


if __name__ == "__main__":
    print(json.dumps(found()))
