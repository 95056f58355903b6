"""Pictures and tables as one HTML file, which opens anywhere and makes no network request.

The app's own scripts draw the pictures there, as on its pages. Only a figure that gpt2viz didn't
draw, or that was changed, brings plotly.js with it.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from gpt2viz import __version__, files
from gpt2viz.export.about import About
from gpt2viz.export.pictures import our_picture
from gpt2viz.pictures import canvas
from gpt2viz.pictures.alt_text import alt_text
from gpt2viz.pictures.chart import chart
from gpt2viz.pictures.every_head import HeadMaps, Thumbnails, as_heatmaps
from gpt2viz.pictures.frames import Still
from gpt2viz.pictures.lines import Lines
from gpt2viz.pictures.palette import LIGHT
from gpt2viz.pictures.picture import Heatmaps, Lens, Picture
from gpt2viz.pictures.sheet import FAMILY
from gpt2viz.pictures.svg import draw

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: The most rows of a table that are written; longer tables are for CSV or Parquet.
LONGEST_TABLE = 200

_HEAD = """<!doctype html>
<html lang="en">
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
</head>
"""
#: The scripts that draw, and the one that starts them.
_SCRIPTS = {"tiles": "tiles", "chart": "chart", "start": "saved_page"}
_START = "start(document, { tiles, chart })"
_HINT = "Drag over cells to enlarge them; a double click, or Escape, shows all of them again."


def save_page(
    path: str | Path,
    pictures: Sequence[tuple[str, Picture | go.Figure]],
    about: About | None = None,
    tables: Iterable[tuple[str, pd.DataFrame]] = (),
) -> Path:
    """Write pictures and tables, each with its title, to one HTML file. See ``page_html``.

    Raises ``ExportError`` if the file can't be written.
    """
    path = Path(path)
    files.save(path, page_html(pictures, about, tables).encode())
    return path


def page_html(
    pictures: Sequence[tuple[str, Picture | go.Figure]],
    about: About | None = None,
    tables: Iterable[tuple[str, pd.DataFrame]] = (),
) -> str:
    """One HTML page with interactive pictures: the pointer shows numbers, a drag enlarges cells.

    Lines, frames and arrows are static. A picture with the page's title has no heading of its
    own. The page forbids itself any request; it contains plotly.js, 4.8 MB, if a figure isn't
    ours. Only the first ``LONGEST_TABLE`` rows of a longer table are written, with a note. All
    texts are escaped.
    """
    title = about.title if about else "gpt2viz"
    head = _HEAD.format(
        title=escape(title),
        source=escape(about.source if about else ""),
        version=escape(about.version if about else __version__),
        style=_style(),
    )
    body = [f"<h1>{escape(title)}</h1>", _facts(about) if about else ""]
    if not all(map(our_picture, dict(pictures).values())):
        from plotly.offline import get_plotlyjs

        body.append(f"<script>{get_plotlyjs()}</script>")
    figures = [_figure(name, picture, f"picture-{n}") for n, (name, picture) in enumerate(pictures)]
    if any('data-picture="tiles"' in figure for figure in figures):
        body.append(f"<p>{_HINT}</p>")
    for (name, _), figure in zip(pictures, figures, strict=True):
        body += [figure] if name == title else [f"<h2>{escape(name)}</h2>", figure]
    body += [_table(name, table) for name, table in tables]
    body.append(f"<script>{files.scripts(_SCRIPTS, _START)}</script>")
    return f"{head}<body>\n{chr(10).join(body)}\n</body>\n</html>\n"


def _style() -> str:
    """The style of the page and of the scripts' elements, in a light page's colours."""
    colors = {**LIGHT.of_page, "font": FAMILY}
    names = "".join(f"--st-{name}: {value}; " for name, value in colors.items())
    return f":root {{ {names}}}\n" + "".join(map(files.asset, ("page.css", "style.css")))


def _facts(about: About) -> str:
    facts = {
        "Text": about.text,
        "Tokens": f"{about.n_tokens:,}" if about.n_tokens else "",
        "Model": about.model,
        "SHA-256": about.sha256,
        "Layer": "" if about.layer is None else str(about.layer),
        "Head": "" if about.head is None else str(about.head),
        "Causal mask": about.mask if about.text else "",
        "Edits": about.edits,
        "Means over": about.mean_over,
        "Patched from": about.patch_from,
        "gpt2viz": about.version,
    }
    rows = (f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts.items() if text)
    return f"<dl>{''.join(rows)}</dl>"


def _foreign(figure: go.Figure, div_id: str) -> str:
    """A figure that gpt2viz didn't draw, by Plotly, in the element ``div_id``; zoom is enabled.

    Plotly's own ids would differ every time.
    """
    import plotly.graph_objects as go

    from gpt2viz.pictures.plotly.offline import CONFIG

    made = go.Figure(figure)
    made.update_layout(
        template="plotly_white",
        paper_bgcolor="#ffffff",
        font={"family": FAMILY, "color": LIGHT.ink},
    )
    made.update_xaxes(fixedrange=False).update_yaxes(fixedrange=False)
    options = {"config": {**CONFIG, "responsive": True}, "div_id": div_id}
    html: str = made.to_html(full_html=False, include_plotlyjs=False, **options)
    return html


def _figure(name: str, picture: Picture | go.Figure, div_id: str) -> str:
    """A picture with its numbers; see ``_foreign`` for one that gpt2viz didn't draw."""
    drawn = our_picture(picture)
    label = f'aria-label="{escape(name, quote=True)}"'
    if drawn is None:
        made = _foreign(picture, div_id)
    elif isinstance(drawn, Lines | Still) or (isinstance(drawn, Thumbnails) and drawn.arrows):
        made = draw(drawn).svg()
    else:
        return f"<figure {label}>{''.join(_picture_elements(drawn))}</figure>"
    return f'<figure role="img" {label}>{made}</figure>'


def _picture_elements(picture: Picture) -> Iterator[str]:
    """The elements that the page's scripts draw a picture in, and their data."""
    alt = " ".join(filter(None, [f"{picture.what}.", alt_text(picture)]))
    if isinstance(picture, Lens):
        yield from _picture_elements(picture.tokens)
    if isinstance(picture, Heatmaps | HeadMaps | Thumbnails):
        matrices = as_heatmaps(picture)
        asks = [False] * len(matrices.panels)
        answers = {"alt": alt, "chooses": False, "drags": True, "asks": asks}
        header = canvas.header(matrices, LIGHT) | answers
        yield _embed("tiles", canvas.encode(header, matrices.panels))
    else:
        sent = {"picture": chart(picture, LIGHT), "alt": alt, "chooses": False}
        yield _embed("chart", json.dumps(sent).encode())


def _embed(script: str, message: bytes) -> str:
    content = b64encode(zlib.compress(message, 9)).decode()
    return (
        f"<div>{files.elements(script)}</div>"
        f'<script type="text/plain" data-picture="{script}">{content}</script>'
    )


def _table(name: str, table: pd.DataFrame) -> str:
    cut = len(table) > LONGEST_TABLE
    note = f"<p>The first {LONGEST_TABLE} of {len(table):,} rows.</p>" if cut else ""
    numbered = isinstance(table.index, pd.RangeIndex)
    rows = table.head(LONGEST_TABLE)
    filled = rows.astype(object).where(
        rows.notna(), ""
    )  # na_rep leaves columns with pd.NA as it is
    made = filled.to_html(index=not numbered, border=0, float_format=lambda x: f"{x:.6g}")
    return f'<h2>{escape(name)}</h2>{note}<div class="table">{made}</div>'
