"""Compare: two of anything side by side, on one scale, with what differs between them."""

from dataclasses import replace

import streamlit as st

from gpt2viz.analysis.comparison import align
from gpt2viz.app import output, prose
from gpt2viz.app.clicks import on_click
from gpt2viz.app.components import lines
from gpt2viz.app.frame import page
from gpt2viz.app.literal import literal
from gpt2viz.app.source_code import Line
from gpt2viz.app.views import compare, compare_outcome, two_texts
from gpt2viz.labels import markup_safe
from gpt2viz.pictures.from_trace import difference_in_words
from gpt2viz.pictures.plotly.compare import aligned_bars, difference_of_matched, side_panel
from gpt2viz.pictures.plotly.heatmap import heatmaps

view = page.open_page("Compare")
what = compare.differs()
both = compare.sides(view, what)
for letter, side in (("A", both.a), ("B", both.b)):
    if side.trace is not view.trace:
        output.run(letter, side.trace)
paths = compare_outcome.paths(both, what)
if what == "text":
    two_texts.verdict(view, both.b.view, (both.a.token, both.b.token), paths)
part, part_of_b = compare.parts(both, what)
*chosen, as_lines = compare.places(both, what, (part, part_of_b))
sides = {"a": both.a, "b": both.b}
titles = [
    compare.title(side, letter.upper(), place)
    for (letter, side), place in zip(sides.items(), chosen, strict=True)
]
whole = [
    side_panel(side.trace, side.view.labels, *place, markup_safe(title))
    for side, place, title in zip(sides.values(), chosen, titles, strict=True)
]
change = part.fit(difference_of_matched(*whole, list(both.matches.items()), "B − A"))
panels = [part.fit(whole[0]), part_of_b.fit(whole[1])]
choose = compare_outcome.choose_token(both, what)
pictures = st.columns([4, 4, 5])
for n, (letter, side) in enumerate(sides.items()):
    with pictures[n], st.container(key=f"side_{letter}"):
        made_by = (Line(side.trace, "weights", chosen[n][0]),)
        if as_lines:
            prose.markdown(f":small[{literal(titles[n])}]")
            lines.draw(
                replace(side.view, query=side.token),
                [panels[n]],
                [titles[n]],
                key=f"lines_{letter}",
                alt=panels[n].named(titles[n]),
                made_by=made_by,
                choose=choose[n],
            )
        else:
            figure = heatmaps([panels[n]], view.colors, height=380, row=side.token)
            output.picture(
                figure,
                key=f"weights_{letter}",
                alt=panels[n].named(titles[n]),
                made_by=made_by,
                shrinks=True,
            )
with pictures[2], st.container(key="side_change"):
    figure = heatmaps(
        [change],
        view.colors,
        scale="signed",
        height=380,
        row=both.a.token,
        bar="difference of weights",
    )
    output.picture(
        figure,
        key="difference",
        alt=change.named(f"Weights of B minus weights of A ({titles[1]}; {titles[0]})"),
        made_by=(difference_of_matched,),
        shrinks=True,
    )
drag = None if what == "text" else part.drag(panels[0])  # two sentences are not one window
for area, n in (("a", 0), ("b", 1), ("change", 0)):
    on_click(f"side_{area}", compare_outcome.choose_row(panels[n].rows, choose[n]), drag)
prose.caption(
    f"Attention weights, A and B on one scale from 0 to 1. {difference_in_words('B − A', 'A', 'B')}"
    + (" Only tokens with a partner are shown." if what == "text" else "")
    + f" Click a {'query' if as_lines else 'row'} to choose its token on both sides."
)
names = [f"{letter.upper()}: {side.name}" for letter, side in sides.items()]
output.picture(
    aligned_bars(
        align(both.a.trace.token_ids, both.b.trace.token_ids),
        (both.a.view.labels, both.b.view.labels),
        (whole[0].values[both.a.token], whole[1].values[both.b.token]),
        tuple(
            f"{markup_safe(name)}, from {side.token} {markup_safe(side.view.labels[side.token])}"
            for name, side in zip(names, sides.values(), strict=True)
        ),
        view.colors,
    ),
    key="bars",
    alt=f"Attention weights of the token on both sides ({titles[0]}; {titles[1]})",
    made_by=(align, aligned_bars),
)

compare_outcome.draw_map(both, what, chosen)
on_click("side_heads", compare_outcome.choose_head(what))

if paths:
    compare_outcome.draw_paths(both, paths, what, names)
if what != "head":
    compare_outcome.next_tokens(both)
