"""The record of one run of the model: plain arrays and names, nothing that can run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, overload

import numpy as np

from gpt2viz.arrays import Array, Numbers, Pairs, largest
from gpt2viz.errors import ArgumentError, MissingExtraError, PlaceError, StageError
from gpt2viz.extras import require
from gpt2viz.labels import label, layers_of_heads, pluralize
from gpt2viz.model.config import ModelConfig
from gpt2viz.model.fingerprint import WeightFiles
from gpt2viz.run.edits import Edit
from gpt2viz.run.key import RunKey
from gpt2viz.run.stages import (
    HeadStageName,
    Stage,
    StageName,
    check_layer,
    from_transformer_lens,
)

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from gpt2viz.model.checkpoint import Model
    from gpt2viz.run.captured import Captured
    from gpt2viz.run.derived import Derived

#: The most tokens that a trace lists when it is printed, or shown in a notebook.
WRITTEN = 60


@dataclass(frozen=True)
class TensorRecord:
    """One tensor as the run made it: a row of the shape table.

    ``axes`` are its letters, such as ("B", "T", "C"), and ``shape`` their sizes in this run;
    ``n_parameters`` are the weights of the module that made it (a tied matrix counts where it
    is used first); ``file``, of ``gpt2viz/model``, ``line`` and ``code`` say where it was made.
    ``shared`` ones are views of the tensor before, such as Q, K and V, or the output of dropout,
    which is off: ``nbytes`` is their size, but a sum leaves them out.
    """

    name: str
    key: StageName
    layer: int | None
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    n_parameters: int
    operation: str
    file: str
    line: int
    code: str
    shared: bool = False


class NextToken(NamedTuple):
    """A token that may come next: its ``text``, its ``id``, and its ``probability``."""

    text: str
    id: int
    probability: float


def readable(token: bytes) -> str:
    """A token as text; a part of a character as its bytes, ``\\xNN``."""
    return token.decode("utf-8", errors="backslashreplace")


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """Everything that one forward pass computed, as read-only float32 arrays.

    Made by ``gpt2viz.trace``. Layers and heads count from 0. The batch axis is kept: B is 1.

    ``tokens`` are texts for reading; a token that is only part of a character shows its bytes
    as ``\\xNN``. ``next_token_probabilities`` is softmax over the whole vocabulary after the
    last token, (B, n_vocab). ``describe`` writes the shape table, ``tensors``.
    ``explicit`` tells whether scores and weights were ``captured`` in the run itself or are
    ``derived`` from its q, k and v on demand. ``edits`` are what was changed in this run, and
    ``forbidden`` (T, T) the keys (columns) that they hid from queries (rows), if any;
    ``mean_over`` names the texts of a ``reference`` that was given for means, if any;
    ``patch_text`` is the text that patches took their pieces from, ``patch_from`` its token ids.
    ``weight_files`` are those that the model was read from, for their checksum. Where
    ``tokens_are_words``, none contains the white space between them; ``spell`` gives the bytes of
    any token of the vocabulary. ``graph`` has the model's stages by key. ``last_logits`` (B,
    n_vocab) are the run's own where a hook changed them, otherwise None.

    ``reused`` is how many first tokens' numbers were taken from an earlier run, ``reuse``, and not
    computed again: those that both texts begin with, as the causal mask hides later tokens from
    them. The last token is always run. The trace is complete all the same, and equal to a full
    run's except for float32's rounding, 1e-5 of a stage's largest number. ``reused`` is 0 if the
    first tokens differ, as where only one of the texts begins with ``<|endoftext|>``: all other
    tokens then have other positions.
    """

    model_name: str
    config: ModelConfig
    text: str
    token_ids: tuple[int, ...]
    tokens: tuple[str, ...]
    token_bytes: tuple[bytes, ...]
    causal: bool
    explicit: bool
    next_token_probabilities: Array
    captured: Captured
    unembedding: Array
    derived: Derived
    describe: Callable[[], tuple[TensorRecord, ...]]
    graph: Mapping[str, Stage]
    edits: tuple[Edit, ...] = ()
    forbidden: Pairs | None = None
    mean_over: str = ""
    patch_from: tuple[int, ...] = ()
    patch_text: str = ""
    weight_files: WeightFiles | None = None
    tokens_are_words: bool = False
    reused: int = 0
    spell: Callable[[int], bytes] = bytes
    last_logits: Array | None = None

    @property
    def windows(self) -> tuple[int, ...]:
        """The most keys of this text that a query can see, by layer: (n_layer,)."""
        T, of_layer = len(self.token_ids), map(self.config.window, range(self.config.n_layer))
        return tuple(min(window or T, T) for window in of_layer)

    @property
    def widest_layer(self) -> int:
        """The first layer with the widest window: what it hides, every layer hides."""
        return self.windows.index(max(self.windows))

    @property
    def key(self) -> RunKey:
        """The identity of this run, by which it is cached."""
        return RunKey(
            self.model_name,
            self.token_ids,
            self.causal,
            self.edits,
            self.patch_from,
            self.mean_over,
        )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The T tokens as they are written on screen, each on one line and with its spaces."""
        return tuple(map(label, self.token_bytes))

    @overload
    def stage(self, key: StageName, layer: int | None = None, head: int | None = None) -> Array: ...

    @overload  # for TransformerLens' names, which have the layer in them
    def stage(self, key: str, layer: None = None, head: int | None = None) -> Array: ...

    def stage(self, key: str, layer: int | None = None, head: int | None = None) -> Array:
        """The numbers of one stage, shaped as ``gpt2viz.STAGES`` declares.

        ``layer`` is needed for the stages that every layer has, and must be left out for the
        others, and for TransformerLens' names, such as "blocks.0.attn.hook_pattern", which
        ``gpt2viz.run.stages.TRANSFORMER_LENS`` lists. With ``head``, those of one head alone,
        (T, T) or (T, hs): in a long text much faster. Where heads share keys and values, k and v
        have a matrix for each group of heads, and ``head`` gets that of its group.

        Raises ``StageError``, a ``KeyError``, for an unknown key and ``PlaceError``, an
        ``IndexError``, for a layer or head that the model or stage doesn't have.
        """
        if "hook_" in key:
            if layer is not None:
                raise PlaceError(f"{key!r} names its layer already: leave layer={layer!r} out")
            key, layer = from_transformer_lens(key, self.config.n_layer, self.graph)
        stage = self.graph.get(key)
        if stage is None or not stage.keep:
            known = " ".join(s.key for s in self.graph.values() if s.keep)
            raise StageError(f"no stage {key!r} in a trace; there are: {known}")
        check_layer(stage, layer, self.config.n_layer)
        heads = self.config.n_head if stage.of_head else 0
        if head is not None and not (isinstance(head, SupportsIndex) and 0 <= head < heads):
            there = f"this model has heads 0 to {heads - 1}" if heads else f"{key} has none"
            raise PlaceError(f"no head {head}: {there}")
        if layer is None or (key, layer) in self.captured:
            whole = self.captured[key, layer]
            if head is not None:
                whole = whole[0, self.config.group_of(head) if stage.of_group else head]
            return whole
        return self.derived.stage(key, layer, head)

    def all_layers(self, key: StageName, head: int | None = None) -> Array:
        """One stage of every layer in one array, layers first: (n_layer, B, nh, T, T) of weights.

        A copy, which takes as much memory as all layers together. With ``head``, that head's of
        every layer, (n_layer, T, T) or (n_layer, T, hs). Raises what ``stage`` raises.
        """
        whole: Array = np.stack([self.stage(key, n, head) for n in range(self.config.n_layer)])
        whole.flags.writeable = False
        return whole

    def hidden_pairs(self, layer: int | None = None) -> Pairs:
        """True where a query (row) could not see a key (column), by mask or edits: (T, T).

        With a ``layer``, also where the key was outside its window, if any. Raises ``PlaceError``.
        """
        if layer is not None:
            check_layer(self.graph["weights"], layer, self.config.n_layer)
        return self.derived.hidden_pairs(layer)

    def check_made_by(self, model: Model) -> None:
        """Raise ``ArgumentError`` if another model made this trace: by name, sizes or weights.

        No file is read for a run of this very model; else the checksum of either's weights, once.
        """
        if not hasattr(model, "network"):
            raise ArgumentError(f"The model that made the trace is needed, not {model!r:.80}")
        if (model.name, model.config) != (self.model_name, self.config):
            raise ArgumentError(f"this trace was made by {self.model_name}, not by {model.name}")
        if model.weight_files is None or self.weight_files is None:
            same = np.shares_memory(model.unembedding, self.unembedding)
        else:
            same = model.weight_files.is_same(self.weight_files)
        if not same:
            raise ArgumentError(f"this trace was made by another {model.name}, with other weights")

    def weights_of_queries(self, layer: int, queries: slice) -> Array:
        """Some queries' attention weights over all keys, in every head of a layer: (nh, r, T).

        For texts whose (nh, T, T) would be too large. The numbers are those of
        ``stage("weights", layer)``; they aren't cached.
        """
        if ("weights", layer) in self.captured:
            return self.captured["weights", layer][0, :, queries]
        return self.derived.weights_of_queries(layer, queries)

    def weights_of_heads(self, layer: int) -> Iterator[Array]:
        """Yield every head's attention weights, (T, T); each overwrites the one before.

        For all heads of a long text, whose weights are recomputed: in the same memory, and only
        for visible keys. They differ from ``stage("weights", layer)`` in float32's last bits, and
        aren't cached.
        """
        if ("weights", layer) in self.captured:
            yield from self.captured["weights", layer][0]
        else:
            yield from self.derived.weights_of_heads(layer)

    def weighted_head_outputs(self, layer: int, shares: Numbers) -> Numbers:
        """Every head's output in a layer, summed over the tokens, each times its share.

        ``shares`` (T,) and the result (nh, hs) are in double. The outputs are the run's own. A long
        run captured no outputs, and none are computed: its weights are mixed before they multiply
        v, which takes half the time, and differs in float32's last bits.
        """
        if ("head_output", layer) in self.captured:
            outputs = self.captured["head_output", layer][0].astype(np.float64)  # (nh, T, hs)
            mixed: Numbers = shares @ outputs
            return mixed
        return self.derived.weighted_head_outputs(layer, shares)

    @cached_property
    def tensors(self) -> tuple[TensorRecord, ...]:
        """The shape table: every tensor, in the order of the run.

        If some tokens were ``reused``, it is the table of a run of all of them.
        """
        return self.describe()

    def record(self, key: str, layer: int | None = None) -> TensorRecord | None:
        """The record of how the run made a stage; None if it was derived later."""
        return next((r for r in self.tensors if (r.key, r.layer) == (key, layer)), None)

    @cached_property
    def logits(self) -> Array:
        """Scores of every vocabulary entry after every token, (B, T, n_vocab)."""
        logits: Array = self.stage("final_norm") @ self.unembedding.T
        if self.last_logits is not None:
            logits[:, -1] = self.last_logits
        logits.flags.writeable = False
        return logits

    def logits_at(self, position: int) -> Array:
        """Scores of every vocabulary entry after one token, (n_vocab,).

        ``position`` counts from 0, or from the end where it is negative. Raises ``PlaceError``
        for a position that the text doesn't have. Unlike ``logits`` it caches no (T, n_vocab).
        """
        position, T = self.index_of(position), len(self.token_ids)
        if self.last_logits is not None and position == T - 1:
            last: Array = self.last_logits[0]
            return last
        logits: Array = self.unembedding @ self.stage("final_norm")[0, position]
        return logits

    def index_of(self, position: int) -> int:
        """A token's position from 0, also for one from the end, as -1. Raises ``PlaceError``."""
        T = len(self.token_ids)
        if not (isinstance(position, SupportsIndex) and -T <= position < T):
            raise PlaceError(f"no token {position!r}: this text has tokens 0 to {T - 1}")
        return position % T

    def next_tokens(self, k: int = 10, position: int = -1) -> tuple[NextToken, ...]:
        """The ``k`` most probable tokens after one, the most probable first.

        Among equals the lower id comes first. ``position`` is as for ``logits_at``, and errors too;
        ``k`` is 1 or more, else ``ArgumentError``.
        """
        if k < 1:
            raise ArgumentError(f"k must be 1 or more, not {k}")
        logits = self.logits_at(position).astype(np.float64)
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        best = largest(shares, min(k, len(shares))).tolist()
        return tuple(NextToken(readable(self.spell(n)), n, float(shares[n])) for n in best)

    def __repr__(self) -> str:
        n_tokens, config = len(self.token_ids), self.config
        edits = f", edits {','.join(map(str, self.edits))}" if self.edits else ""
        if self.patch_from:
            edits += f" from {self.patch_text!r:.80}"
        if self.reused:
            edits += f", the first {self.reused:,} from an earlier run"
        written = (f"{n}:{text}" for n, text in enumerate(self.labels[:WRITTEN]))
        more = f" … and {n_tokens - WRITTEN:,} more" if n_tokens > WRITTEN else ""
        size = layers_of_heads(config.n_layer, config.n_head)
        return (
            f"Trace of {pluralize(n_tokens, 'tokens')} through {self.model_name} ({size}), causal "
            f"mask {'on' if self.causal else 'off'}{edits}\n{' '.join(written)}{more}"
        )

    def heatmap(self, layer: int, head: int, stage: HeadStageName = "weights") -> Figure:
        """A Plotly figure of one stage of one head: see ``gpt2viz.figures.heatmap``."""
        return figures().heatmap(self, layer, head, stage)

    def heads(self, layer: int, stage: HeadStageName = "weights") -> Figure:
        """A Plotly figure of one stage of every head of a layer."""
        return figures().heads(self, layer, stage)

    def overview(self) -> Figure:
        """A Plotly figure of the weights of every head of every layer."""
        return figures().overview(self)

    def table(self, layer: int, head: int, stage: HeadStageName = "weights") -> DataFrame:
        """One stage of one head as a pandas DataFrame, with tokens as names."""
        return figures().table(self, layer, head, stage)

    def _repr_mimebundle_(self, **_requested: Any) -> dict[str, str]:
        """Show a trace in a notebook: its tokens, its model, and every head as a thumbnail.

        Without the packages that draw it: its text, and what to install.
        """
        return mimebundle(repr(self), lambda: figures().html(self))

    @property
    def nbytes(self) -> int:
        """Bytes held now, for caches that are bounded in bytes; reading stages may add some."""
        logits = vars(self)["logits"].nbytes if "logits" in vars(self) else 0
        return logits + self.captured.nbytes + self.derived.nbytes


def check_run(given: Trace, model: Model) -> None:
    """Raise ``ArgumentError`` for anything but a trace, and for one that another model made."""
    check_trace(given)
    given.check_made_by(model)


def check_trace(given: Trace) -> None:
    """Raise ``ArgumentError`` for anything but a trace."""
    if not isinstance(given, Trace):
        raise ArgumentError(
            f"A trace is needed, not {type(given).__name__}: gpt2viz.trace(model, text) makes one."
        )


def figures() -> Any:
    """The module ``gpt2viz.figures``, which draws traces; imported on demand."""
    with require("A trace's picture or table", "notebook"):
        from gpt2viz import figures

    return figures


def mimebundle(text: str, html: Callable[[], str]) -> dict[str, str]:
    """A value as a notebook shows it: HTML, or its text and what to install for more."""
    try:
        return {"text/plain": text, "text/html": html()}
    except MissingExtraError as error:
        return {"text/plain": f"{text}\n{error}"}
