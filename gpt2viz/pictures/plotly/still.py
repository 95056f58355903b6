"""One frame of a picture that moves: its blocks and words, with the caption above them."""

from __future__ import annotations

import textwrap

import plotly.graph_objects as go

from gpt2viz.pictures.frames import Mark, Still
from gpt2viz.pictures.palette import Palette, ink
from gpt2viz.pictures.plotly.base import Figure
from gpt2viz.pictures.plotly.grid import markup

#: Pixels: the width of all, a line of blocks, a line of the caption, and what stays free.
_WIDTH, _LINE, _SAID, _FREE = 720, 26, 19, 12
#: Letters of the caption that fit a line.
_LETTERS = 100


def draw(picture: Still, colors: Palette) -> Figure:
    """Every mark where it stands in the frame, each text in the middle of it or on its left."""
    marks, caption = picture.frame.marks, textwrap.wrap(picture.frame.caption, _LETTERS)
    top = _SAID * len(caption) + _FREE
    figure = Figure(
        go.Scatter(
            x=[one.x if one.left else one.x + one.wide / 2 for one in marks],
            y=[one.y + one.tall / 2 for one in marks],
            text=[markup(one.text) for one in marks],
            textposition=["middle right" if one.left else "middle center" for one in marks],
            textfont={"size": 12, "color": [_text(one, colors) for one in marks]},
            mode="text",
            hoverinfo="skip",
            cliponaxis=False,
        )
    )
    figure.update_layout(
        width=_WIDTH,
        height=round(_LINE * picture.lines) + top + _FREE,
        margin={"l": _FREE, "r": _FREE, "t": top, "b": _FREE, "autoexpand": False},
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=False,
        shapes=[_block(one, colors) for one in marks if one.role != "" and one.wide],
        annotations=[
            {
                "text": "<br>".join(map(markup, caption)),
                "font": {"size": 13, "color": colors.ink},
                "align": "left",
                "showarrow": False,
                **{"x": 0, "xref": "paper", "xanchor": "left"},
                **{"y": 1, "yref": "paper", "yanchor": "bottom"},
            }
        ],
    )
    figure.update_xaxes(visible=False, range=[0, 1])
    figure.update_yaxes(visible=False, range=[picture.lines, 0])
    return figure


def _text(mark: Mark, colors: Palette) -> str:
    fill = mark.fill(colors)
    return ink(fill) if fill else colors.ink


def _block(mark: Mark, colors: Palette) -> dict[str, object]:
    """A rectangle; Plotly draws it below the texts."""
    return {
        "type": "rect",
        "layer": "below",
        **{"x0": mark.x, "x1": mark.x + mark.wide, "y0": mark.y, "y1": mark.y + mark.tall},
        "fillcolor": mark.fill(colors),
        "line": {"color": colors.unit[0][1], "width": 1},
    }
