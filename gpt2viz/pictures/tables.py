"""Tables: the numbers behind the pictures, as pandas frames with named columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gpt2viz.analysis.cell import CellArithmetic
from gpt2viz.arrays import Numbers, largest
from gpt2viz.labels import pluralize
from gpt2viz.pictures.panel import Panel
from gpt2viz.pictures.shapes import shape_rows
from gpt2viz.run.stages import AXES, axis_sizes
from gpt2viz.run.trace import Trace

if TYPE_CHECKING:  # torch stays out of the tables
    from gpt2viz.analysis.generation import Choice
    from gpt2viz.analysis.lens import Contributions


def shape_table(trace: Trace) -> pd.DataFrame:
    """``shape_rows`` as a table."""
    return pd.DataFrame(shape_rows(trace)).astype({"layer": "Int64"})


def filter_rows(table: pd.DataFrame, text: str) -> pd.DataFrame:
    """The rows with ``text`` in any column, ignoring case; all rows for no text."""
    text = text.strip().casefold()
    cells = table.astype(str).apply(lambda column: column.str.casefold())
    matches = cells.apply(lambda column: column.str.contains(text, regex=False)).any(axis=1)
    return table[matches]


def axis_table(trace: Trace) -> list[tuple[str, str]]:
    """Every axis of a run's tensors: its letter, and its size, such as "4 tokens"."""
    sizes = axis_sizes(trace.config, len(trace.tokens))
    used = {axis for record in trace.tensors for axis in record.axes}
    return [(axis, pluralize(sizes[axis], AXES[axis])) for axis in AXES if axis in used]


def panel_table(panel: Panel) -> pd.DataFrame:
    """The numbers of one heatmap; rows and columns are named by position and token.

    Index and columns are named after the axes, such as query and key.
    """
    return pd.DataFrame(
        panel.values,
        index=pd.Index(panel.rows.full_names(), name=panel.rows.title),
        columns=pd.Index(panel.columns.full_names(), name=panel.columns.title),
    )


def shown_table(panel: Panel) -> pd.DataFrame:
    """The same with masked cells missing (``pandas.NA``), unlike 0 or a NaN of the run."""
    result = panel_table(panel)
    hidden = panel.hidden
    for n, name in enumerate(result.columns):
        result[name] = pd.arrays.FloatingArray(panel.values[:, n].copy(), hidden[:, n].copy())
    return result


def dot_product_table(cell: CellArithmetic) -> pd.DataFrame:
    """q·k term by term, one row per dimension."""
    return pd.DataFrame({"q": cell.query, "k": cell.key, "q × k": cell.products}).rename_axis(
        "dimension"
    )


def softmax_table(cell: CellArithmetic, labels: Sequence[str]) -> pd.DataFrame:
    """The query's row through softmax, one row per key."""
    return pd.DataFrame(
        {
            "key": [f"{n} {text}" for n, text in enumerate(labels)],
            "score": cell.row,
            "exp": cell.exponentials,
            "weight": cell.weights,
        }
    ).set_index("key")


def output_table(cell: CellArithmetic) -> pd.DataFrame:
    """The head's output for the query, one row per dimension."""
    return pd.DataFrame(
        {
            "weight × v": cell.contribution,
            "all keys": cell.output,
            "model": cell.model_output,
        }
    ).rename_axis("dimension")


def next_token_table(
    model: Numbers, drawn: Numbers, labels: Sequence[str], top: int
) -> pd.DataFrame:
    """The ``top`` most probable tokens of (n_vocab,) ``model``, and one row for all the others.

    ``drawn`` (n_vocab,) is the distribution after the sampling settings. In percent;
    both columns sum to 100.
    """
    best = largest(model, top)
    others = len(model) - len(best)
    columns = {
        "model (%)": 100 * np.append(model[best], np.delete(model, best).sum()),
        "drawn from (%)": 100 * np.append(drawn[best], np.delete(drawn, best).sum()),
    }
    names = [labels[n] for n in best] + [f"all other {pluralize(others, 'tokens')}"]
    ids = pd.array([*best, None], dtype="Int64")
    return pd.DataFrame({"token": names, "id": ids} | columns)


#: The kinds of a logit's parts, in words where their names aren't plain.
_PARTS: dict[str, str] = {
    "token": "token embedding",
    "position": "position embedding",
    "bias": "attention's bias",
    "mlp": "MLP",
    "constant": "final norm's bias",
}


def contribution_table(parts: Contributions) -> pd.DataFrame:
    """Every part of a logit, largest first, in nats; the rows sum to the logit."""
    names = [str(p).replace(p.kind, _PARTS.get(p.kind, p.kind)) for p in parts.parts]
    table = pd.DataFrame({"component": names, "added (nats)": parts.parts.values()})
    return table.sort_values("added (nats)", key=np.abs, ascending=False, ignore_index=True)


def largest_changes(change: Numbers, top: int) -> NDArray[np.intp]:
    """The ``top`` tokens whose probability rose most, then the ``top`` that fell most.

    They go from the largest rise to the largest fall; one that didn't ``change`` (n_vocab,) is left
    out.
    """
    order = np.argsort(-change, kind="stable")
    rises, falls = order[:top], order[max(top, len(order) - top) :]
    return np.concatenate([rises[change[rises] > 0], falls[change[falls] < 0]])


def most_probable_of_two(before: Numbers, after: Numbers, top: int) -> NDArray[np.intp]:
    """The ``top`` tokens that are most probable on either side (n_vocab,), by ``before``."""
    best = largest(np.maximum(before, after), top)
    return best[np.argsort(-before[best], kind="stable")]


def table_of_two(
    chosen: NDArray[np.intp],
    before: Numbers,
    after: Numbers,
    labels: Sequence[str],
    names: tuple[str, str],
) -> pd.DataFrame:
    """A row for each of the ``chosen`` tokens: two probabilities and their difference, in percent.

    ``before`` and ``after`` are (n_vocab,) probabilities, which ``names`` name.
    """
    return pd.DataFrame(
        {
            "token": [labels[n] for n in chosen],
            "id": chosen,
            f"{names[0]} (%)": 100 * before[chosen],
            f"{names[1]} (%)": 100 * after[chosen],
            "change (points)": 100 * (after - before)[chosen],
        }
    )


def choice_table(choices: Sequence[Choice], labels: Sequence[str]) -> pd.DataFrame:
    """The generated tokens, one row each; ``labels`` names the whole vocabulary."""
    return pd.DataFrame(
        {
            "token": labels[choice.token],
            "probability (%)": 100 * choice.probability,
            "rank": choice.rank,
            "surprise (bits)": choice.surprise,
        }
        for choice in choices
    )
