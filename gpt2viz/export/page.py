"""Pictures and tables as one HTML file, which opens anywhere and asks nothing of a network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from gpt2viz import __version__, files
from gpt2viz.export.about import About
from gpt2viz.export.paper import on_white
from gpt2viz.pictures.picture import Picture
from gpt2viz.pictures.plotly.offline import CONFIG
from gpt2viz.pictures.plotly.render import draws
from gpt2viz.pictures.svg import FAMILY, Drawable, draw

#: Rows of a table that are written out; a longer one is for CSV or Parquet.
LONGEST_TABLE = 200

_HEAD = """<!doctype html>
<html lang="en" style="font-family: {family}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<meta name="generator" content="gpt2viz {version}">
<meta name="description" content="{source}">
<title>{title}</title>
<style>
{style}</style>
<script>{plotlyjs}</script>
</head>
"""
_STYLE = (resources.files("gpt2viz.export") / "page.css").read_text(encoding="utf-8")


def save_page(
    path: str | Path,
    pictures: Sequence[tuple[str, Picture | go.Figure]],
    about: About | None = None,
    tables: Iterable[tuple[str, pd.DataFrame]] = (),
) -> Path:
    """Write pictures and tables, each with its title, to one HTML file. See ``page_html``.

    Raises ``ExportError`` where the file can't be written.
    """
    path = Path(path)
    files.save(path, page_html(pictures, about, tables).encode())
    return path


def page_html(
    pictures: Sequence[tuple[str, Picture | go.Figure]],
    about: About | None = None,
    tables: Iterable[tuple[str, pd.DataFrame]] = (),
) -> str:
    """One HTML page with the pictures alive: the pointer shows the numbers, a drag enlarges.

    Lines and frames are still. A picture that is called like the page has no heading of its own.
    plotly.js is inside, 4.8 MB of it, and the page forbids itself any request. Of a table longer
    than ``LONGEST_TABLE`` rows only these are written, and it is said. All texts are escaped.
    """
    title = about.title if about else "gpt2viz"
    head = _HEAD.format(
        title=escape(title),
        source=escape(about.source if about else ""),
        version=escape(about.version if about else __version__),
        family=FAMILY,
        style=_STYLE,
        plotlyjs=get_plotlyjs(),
    )
    body = [f"<h1>{escape(title)}</h1>", _facts(about) if about else ""]
    for n, (name, picture) in enumerate(pictures):
        body += [] if name == title else [f"<h2>{escape(name)}</h2>"]
        body.append(_picture(name, picture, f"picture-{n}"))
    body += [_table(name, table) for name, table in tables]
    return f"{head}<body>\n{chr(10).join(body)}\n</body>\n</html>\n"


def _facts(about: About) -> str:
    facts = {
        "Text": about.text,
        "Tokens": f"{about.n_tokens:,}" if about.n_tokens else "",
        "Model": about.model,
        "SHA-256": about.sha256,
        "Layer": "" if about.layer is None else str(about.layer),
        "Head": "" if about.head is None else str(about.head),
        "Causal mask": about.mask if about.model else "",
        "Edits": about.edits,
        "Means over": about.mean_over,
        "Patched from": about.patch_from,
        "gpt2viz": about.version,
    }
    rows = (f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts.items() if text)
    return f"<dl>{''.join(rows)}</dl>"


def _picture(name: str, picture: Picture | go.Figure, div_id: str) -> str:
    """A picture in the element ``div_id``: an id of Plotly's own would be another every time."""
    if isinstance(picture, Drawable) and not draws(picture):
        made = draw(picture).svg()
    else:
        made = on_white(picture).to_html(
            full_html=False,
            include_plotlyjs=False,
            div_id=div_id,
            config={**CONFIG, "responsive": True},
        )
    return f'<figure role="img" aria-label="{escape(name, quote=True)}">{made}</figure>'


def _table(name: str, table: pd.DataFrame) -> str:
    cut = len(table) > LONGEST_TABLE
    note = f"<p>The first {LONGEST_TABLE} of {len(table):,} rows.</p>" if cut else ""
    numbered = isinstance(table.index, pd.RangeIndex)
    made = table.head(LONGEST_TABLE).to_html(
        index=not numbered, border=0, na_rep="", float_format=lambda x: f"{x:.6g}"
    )
    return f'<h2>{escape(name)}</h2>{note}<div class="table">{made}</div>'
