"""The address's parameters, each declared once: its kind of value, its pages, its meaning.

Pages read them through ``app/address.py``: ``address.choice(parameters.LAYER, range(4))``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from gpt2viz.analysis.cell import parse_path, remap_path
from gpt2viz.analysis.patterns import parse_cells, remap_cells
from gpt2viz.app import pages
from gpt2viz.app.pages import Page
from gpt2viz.run.edits import parse_edits, remap_edits
from gpt2viz.textbook.gaps import GAPS

T = TypeVar("T")
#: A token's old position -> its new one, or None if the token is gone.
To = Callable[[int], int | None]
#: (a parameter's text, the new positions, all texts in the address) -> its text for the new
#: positions, "" if none is left. Raises ``ValueError`` for text that can't be parsed.
Move = Callable[[str, To, Mapping[str, str]], str]


@dataclass(frozen=True, eq=False)
class Parameter:
    """A parameter of the address. Its subclasses say what values it takes.

    ``on`` are the pages that read it. ``default`` applies if the address has no value; it is None
    if it depends on the sentence or the model, or if nothing is chosen at first. ``moves`` updates
    its text as the sentence's tokens move. It is forgotten when one of the parameters that it is
    chosen ``of`` changes.
    """

    name: str
    says: str
    on: tuple[Page, ...]
    default: Any = None
    moves: Move | None = None
    of: tuple[Parameter, ...] = ()

    values: ClassVar[str] = ""


class SelectParam(Parameter):
    """One of a few values, or none."""

    values = "one of the options"


class Switch(Parameter):
    """On or off."""

    values = "`true` or `false`"


class Text(Parameter):
    """Any text."""

    values = "any text"


class MultiParam(Parameter):
    """Some of a few numbers."""

    values = "comma-separated numbers, such as `0,2`"


class ListParam(Parameter):
    """A list that no single widget holds, in a short form of its own."""

    values = "a comma-separated list"


def _mode(name: str, page: Page) -> SelectParam:
    """Return the parameter that picks one of a page's modes, by default the first."""
    modes = ", ".join(f"`{mode}` ({label})" for mode, label in page.modes.items())
    return SelectParam(name, f"The page's mode: {modes}", (page,), next(iter(page.modes)))


def move_tokens(raw: str, to: To, _all: Mapping[str, str]) -> str:
    """Move positions, separated by commas."""
    positions = (to(int(n)) for n in raw.split(","))
    return ",".join(str(position) for position in positions if position is not None)


def move_parsed(parse: Callable[[str], T], remap: Callable[[T, To], Iterable[Any]]) -> Move:
    """Return a function that moves a list of cells, edits or steps, which ``parse`` reads."""
    return lambda raw, to, _all: ",".join(map(str, remap(parse(raw), to)))


move_cells = move_parsed(parse_cells, remap_cells)
move_edits = move_parsed(parse_edits, remap_edits)
move_path = move_parsed(parse_path, remap_path)


def move_part(raw: str, to: To, _all: Mapping[str, str]) -> str:
    """Move the ends of two ranges, which shrink where tokens are gone."""
    ends = [int(n) for n in raw.split(",")]
    new_ends: list[int] = []
    for start, stop in zip(ends[::2], ends[1::2], strict=True):
        left = [position for n in range(start, stop) if (position := to(n)) is not None]
        if not left:
            return ""
        new_ends += [left[0], left[-1] + 1]
    return ",".join(map(str, new_ends))


def move_token_of_pattern(raw: str, to: To, everything: Mapping[str, str]) -> str:
    """Move a column's number, a token's position; other patterns' numbers aren't positions."""
    return move_tokens(raw, to, everything) if everything.get("pattern") == "column" else raw


_HEADS: tuple[Page, ...] = (pages.ATTENTION, pages.HEAD, pages.SIDE_BY_SIDE, pages.FIND)
_HEADS += (pages.PREDICT, pages.WHAT_IF, pages.TEXTBOOK)
_LINES = tuple(page for page in _HEADS if page is not pages.PREDICT)
_PARTS: tuple[Page, ...] = (pages.ATTENTION, pages.HEAD, pages.SIDE_BY_SIDE, pages.WHAT_IF)
_FIRST: tuple[Page, ...] = (pages.ATTENTION, pages.SIDE_BY_SIDE)
_SIDES, _FIND, _PREDICT = (pages.SIDE_BY_SIDE,), (pages.FIND,), (pages.PREDICT,)
_WHAT_IF, _GROWTH, _BOOK = (pages.WHAT_IF,), (pages.TRAINING,), (pages.TEXTBOOK,)

#: Parameters that every page reads, as its frame shows them.
OF_EVERY_PAGE: tuple[Parameter, ...] = (
    TEXT := Text("text", "The sentence", pages.MENU, "The cat sat on the mat and the cat sat"),
    MODEL := SelectParam("model", "The model, by its name", pages.MENU),
    CAUSAL := Switch("causal", "The causal mask", pages.MENU, True),
    BOS := Switch("bos", "Put the beginning-of-text token first", pages.MENU),
    QUERY := SelectParam("query", "The chosen token, by position", pages.MENU, moves=move_tokens),
    FROM := SelectParam("from", "The first token that is shown of a long text", pages.MENU),
    TOUR := SelectParam("tour", "The step of the tour", pages.PAGES),
    PRESENT := Switch(
        "present", "Large labels and no controls, for a lecture room", pages.PAGES, False
    ),
    ADDED := Text("added", "A page that another package adds", (pages.ADDED,)),
)

#: Parameters of single pages, or of some.
_OF_PAGES: tuple[Parameter, ...] = (
    LAYER := SelectParam("layer", "The layer", (*_HEADS, pages.TRAINING, pages.MODELS)),
    HEAD := SelectParam("head", "The head", (*_HEADS, pages.TRAINING)),
    PICTURE := SelectParam("picture", "Weights as a `matrix` or as `lines`", _LINES, "matrix"),
    ZOOM := ListParam(
        "zoom",
        "The part that is shown: first query, end of the queries, first key, end of the keys",
        _PARTS,
        moves=move_part,
        of=(TEXT, BOS),
    ),
    MORE := MultiParam("more", "Heads drawn over the chosen one", (pages.ATTENTION,)),
    SHOW := SelectParam(
        "show",
        "What is shown: `weights`, `rest` (without the first column) or `norms` (value-weighted)",
        _FIRST,
        "weights",
    ),
    WORDS := Switch("words", "Tokens grouped into words", _FIRST, False),
    KEY := SelectParam("key", "The key token, by position", (pages.HEAD,), moves=move_tokens),
    SEE := _mode("see", pages.HEAD),
    TOKEN := Text(
        "token",
        "By its weights: the token whose effect is shown, as written on screen",
        (pages.HEAD,),
        of=(QUERY,),
    ),
    WHY := ListParam(
        "why",
        "Why does it look there? Heads on the path down, each by layer and head, query and key: "
        "`0.0:2:1`",
        (pages.HEAD,),
        moves=move_path,
        of=(LAYER, HEAD, QUERY, KEY),
    ),
    PARTS := SelectParam(
        "parts",
        "What pairs of parts add to a score, `beyond` the row's mean or `raw`; or the strongest "
        "`path` down to the tokens",
        (pages.HEAD,),
        "beyond",
    ),
    WITHOUT := Switch(
        "without", "Why: also run the whole model without each of the heads", (pages.HEAD,), False
    ),
    EDITED := Switch("edited", "Why: for the run with the `edits`", (pages.HEAD,), False),
    DIFFERS := _mode("differs", pages.SIDE_BY_SIDE),
    LAYERS := MultiParam("layers", "Two to four layers, side by side", _SIDES),
    COMPARE := SelectParam(
        "compare", "All heads of a layer instead of the chosen one: `mean` or `rollout`", _SIDES
    ),
    FIND := _mode("find", pages.FIND),
    HABIT := SelectParam("habit", "The score by which heads are ranked", _FIND, "induction"),
    ON := SelectParam(
        "on", "Scores on the `sentence`, the `probe` or `texts`, or by the `weights` alone", _FIND
    ),
    ONLY := MultiParam("only", "Layers whose heads are listed", _FIND),
    KEYS := MultiParam("keys", "The attended tokens, by position", _FIND, moves=move_tokens),
    RANK := SelectParam("rank", "How attention to them is measured", _FIND, "attention weight"),
    PATTERN := SelectParam("pattern", "The pattern that is drawn", _FIND, "back"),
    N := SelectParam("n", "The pattern's number", _FIND, moves=move_token_of_pattern),
    CELLS := ListParam(
        "cells", "Cells painted over the pattern: `3:1,4:2`", _FIND, moves=move_cells
    ),
    ALIKE := SelectParam("alike", "The minimum similarity of heads in a group", _FIND, 0.9),
    MEASURE := SelectParam(
        "measure",
        "Wiring: how heads are compared, by the Projection `kernel` or the `ratio` of norms",
        _FIND,
        "kernel",
    ),
    INTO := SelectParam("into", "Wiring: edges into `q`, `k` or `v`, or `all`", _FIND, "all"),
    MOST := SelectParam("most", "Wiring: the number of strongest edges", _FIND, 20),
    EDGE := ListParam(
        "edge",
        "Wiring: the chosen edge, from a head into another's q, k or v: `0.0:1.4:k`",
        _FIND,
        of=(MODEL,),
    ),
    PATH := Switch(
        "path", "Wiring: the chosen edge's path is patched between two sentences", _FIND, False
    ),
    SCORE := SelectParam("score", "The score that is followed", _GROWTH),
    STEP := SelectParam("step", "The training step of one of the model's own checkpoints", _GROWTH),
    SINCE := SelectParam("since", "The step with which the chosen one is compared", _GROWTH),
    AGAINST := SelectParam("against", "The head whose birth is compared: `1.7`", _GROWTH),
    PREDICT := _mode("predict", pages.PREDICT),
    TEMPERATURE := SelectParam("temperature", "Temperature", _PREDICT, 1.0),
    TOP_K := SelectParam("top_k", "Top-k", _PREDICT, "all"),
    TOP_P := SelectParam("top_p", "Top-p", _PREDICT, 1.0),
    EXPLAIN := Text("explain", "The token whose logit is decomposed", _PREDICT),
    MINUS := Text("minus", "The token whose logit is subtracted", _PREDICT, "nothing"),
    WHAT_IF := _mode("what_if", pages.WHAT_IF),
    EDITS := ListParam(
        "edits",
        "Edits in the order in which they apply: `off:1.3,window:2`",
        (pages.ATTENTION, pages.WHAT_IF, pages.HEAD),
        moves=move_edits,
    ),
    SEED := SelectParam("seed", "The seed of sampling", _PREDICT, 0),
    NEW := ListParam(
        "new", "Tokens generated so far, after a checksum of what they continue", _PREDICT
    ),
    CACHE := Switch("cache", "Generate: the cache of keys and values is shown", _PREDICT, False),
    ROOM := SelectParam("room", "The size of a fixed cache, in tokens", _PREDICT, 4),
    SINKS := SelectParam("sinks", "The number of first tokens that it keeps", _PREDICT, 1),
    TEXT2 := Text("text2", "The second sentence", (*_SIDES, *_FIND, *_WHAT_IF)),
    MATCH := ListParam(
        "match", "Tokens that belong together: `1:6,3:2`", _SIDES, moves=move_cells, of=(TEXT2,)
    ),
    WHOLE := Switch("whole", "The mean of all heads instead of one", (*_SIDES, *_WHAT_IF), False),
    LAYER2 := SelectParam("layer2", "The layer of B", _SIDES),
    HEAD2 := SelectParam("head2", "The head of B", _SIDES, 0),
    MODEL2 := SelectParam("model2", "The model of B", _SIDES),
    OVER := SelectParam(
        "over", "Models: over this `sentence`, or over many `texts`", _SIDES, "sentence"
    ),
    TEXTS := Text(
        "texts", "The texts on which two models are compared, one per line", (*_SIDES, *_GROWTH), ""
    ),
    MOVED := SelectParam(
        "moved",
        "How changes of heads are measured: `output` or `pattern`, of the model or their `own`",
        (*_SIDES, *_GROWTH),
        "own output",
    ),
    DIRECTION := SelectParam(
        "direction",
        "Patching: `denoise` puts a piece of the first run into the second, `noise` one of the "
        "second into the first",
        _WHAT_IF,
        "denoise",
    ),
    METRIC := SelectParam(
        "metric",
        "What is measured: `logit difference`, `probability` or `divergence`",
        _WHAT_IF,
        "logit difference",
    ),
    RIGHT := Text("right", "The right next token, of the first run", _WHAT_IF),
    WRONG := Text("wrong", "The wrong next token, of the second run", _WHAT_IF),
    PIECE := SelectParam(
        "piece",
        "What of every head is patched: `head_output`, `q`, `k`, `v` or `weights`",
        _WHAT_IF,
        "head_output",
    ),
    PATCH := ListParam(
        "patch",
        "Patching: the piece that is copied into the other run, as an edit, "
        "`patch:residual_in:2:7` or `patch:q:1.4`",
        _WHAT_IF,
        moves=move_edits,
    ),
    DETAIL := SelectParam(
        "detail",
        "Patching: below the maps one `patch`, the `paths` into its head, or the `fewest` heads "
        "that keep the answer",
        _WHAT_IF,
        "patch",
    ),
    FILTER := Text("filter", "Only rows with this text are shown", (pages.SHAPES,), ""),
    PART := SelectParam("part", "The section", (pages.MODELS,), "all"),
    WORD := Text("word", "The text to tokenize", (pages.MODELS,), " unbelievable"),
    FIND_WORD := Text("find_word", "Words with this in name or meaning", (pages.GLOSSARY,), ""),
    TERM := SelectParam("term", "The highlighted word", (pages.GLOSSARY,)),
    CHAPTER := SelectParam("chapter", "The chapter", _BOOK),
    EXAMPLE := SelectParam("example", "The worked example that the chapter opens at", _BOOK),
)

#: The parameter of the expression in each gap of *Build it yourself*.
GAP: Mapping[str, Text] = {
    gap.name: Text(f"build_{gap.name}", f"Build it yourself: {gap.title}", _BOOK, "")
    for gap in GAPS
}
#: Parameters of the Textbook's examples.
_OF_THE_BOOK: tuple[Parameter, ...] = (
    LAST_X := ListParam("last_x", "The last vector", _BOOK),
    LAST_ROWS := ListParam("last_rows", "A vocabulary of four", _BOOK),
    HEAT := SelectParam("heat", "Temperature", _BOOK, 1.0),
    TARGET := SelectParam("target", "The word that comes next", _BOOK, "fish"),
    LEARN_LOGITS := ListParam("learn_logits", "Logits for what follows each letter", _BOOK),
    LEARN_RATE := SelectParam("learn_rate", "The learning rate of one step", _BOOK, 3.0),
    LEARN_SEED := SelectParam("learn_seed", "The seed of a small training", _BOOK, 0),
    PLANE_WORDS := Text(
        "plane_words",
        "Words drawn as points",
        _BOOK,
        "king queen man woman cat dog river sea red green",
    ),
    PLANE_SUM := Text(
        "plane_sum",
        "The first minus the second plus the third, and the expected word",
        _BOOK,
        "king man woman queen",
    ),
    TINY_WORDS := ListParam("tiny_words", "The tiny crane's token table", _BOOK),
    TINY_PLACES := ListParam("tiny_places", "Its position vectors", _BOOK),
    TINY_Q0 := ListParam("tiny_q0", "W_Q of its head 0", _BOOK),
    TINY_K0 := ListParam("tiny_k0", "W_K of its head 0", _BOOK),
    TINY_V0 := ListParam("tiny_v0", "W_V of its head 0", _BOOK),
    TINY_Q1 := ListParam("tiny_q1", "W_Q of its head 1", _BOOK),
    TINY_K1 := ListParam("tiny_k1", "W_K of its head 1", _BOOK),
    TINY_V1 := ListParam("tiny_v1", "W_V of its head 1", _BOOK),
    TINY_MERGE := ListParam("tiny_merge", "Its W_O", _BOOK),
    TINY_WIDEN := ListParam("tiny_widen", "Its MLP's first matrix, with biases", _BOOK),
    TINY_BACK := ListParam("tiny_back", "Its MLP's second matrix", _BOOK),
    MASK_SCORES := ListParam("mask_scores", "Scaled scores", _BOOK),
    MIX_STEP := SelectParam("mix_step", "The step of the crane's mixture", _BOOK, 0),
    MERGE_STEP := SelectParam("merge_step", "The step of a word's merges", _BOOK, 0, of=(MODEL,)),
    MASK_STEP := SelectParam("mask_step", "The step of the mask as it closes", _BOOK, 0),
    MASK_ON := Switch("mask_on", "The causal mask", _BOOK, True),
    ORDER_WORDS := ListParam("order_words", "Word vectors", _BOOK),
    ORDER_PLACES := ListParam("order_places", "Position vectors", _BOOK),
    ORDER_ON := Switch("order_on", "Position vectors are added", _BOOK, False),
    MASK_PLACES := Switch("mask_places", "The same with only the mask", _BOOK, False),
    ORDER_MASK := Switch("order_mask", "The causal mask", _BOOK, False),
    CRANE := SelectParam(
        "crane", "The sentence with the crane: `bird` or `machine`", _BOOK, "bird"
    ),
    CRANE_HEAT := SelectParam("crane_heat", "The temperature of the crane's softmax", _BOOK, 1.0),
    CRANE_MASK := Switch("crane_mask", "Later words are hidden from the crane", _BOOK, False),
    CRANE_Q := ListParam("crane_q", "The crane's query", _BOOK),
    CRANE_K_BIRD := ListParam("crane_k_bird", "Keys beside the bird", _BOOK),
    CRANE_V_BIRD := ListParam("crane_v_bird", "Values beside the bird", _BOOK),
    CRANE_K_MACHINE := ListParam("crane_k_machine", "Keys beside the machine", _BOOK),
    CRANE_V_MACHINE := ListParam("crane_v_machine", "Values beside the machine", _BOOK),
    JOURNEY_X := ListParam("journey_x", "Six words", _BOOK),
    JOURNEY_Q := SelectParam("journey_q", "The query's word", _BOOK, 1),
    HAND_TABLES := SelectParam(
        "hand_tables", "Its tables: `named`, or drawn at `random`", _BOOK, "named"
    ),
    HAND_X := ListParam("hand_x", "Four words", _BOOK),
    HAND_WQ := ListParam("hand_wq", "W_Q", _BOOK),
    HAND_WK := ListParam("hand_wk", "W_K", _BOOK),
    HAND_WV := ListParam("hand_wv", "W_V", _BOOK),
    HS := SelectParam("hs", "The head size", _BOOK, 64),
    WAY_STEP := SelectParam("way_step", "The step of vectors that are split into heads", _BOOK, 0),
    VALUES_X := ListParam("values_x", "Words that are attended to", _BOOK),
    VALUES_WV := ListParam("values_wv", "Their values: W_V", _BOOK),
    WAY_B := SelectParam("way_B", "Texts at once", _BOOK, 2),
    WAY_T := SelectParam("way_T", "Tokens", _BOOK, 6),
    WAY_C := SelectParam("way_C", "Channels", _BOOK, 768),
    WAY_NH := SelectParam("way_nh", "Heads", _BOOK, 12),
    VARIANTS_X := ListParam("variants_x", "The input of four ways", _BOOK),
    VARIANTS_SEED := SelectParam("variants_seed", "The seed of the weights", _BOOK, 0),
    WEIGHTS_P := SelectParam("weights_p", "The probability of dropping a weight", _BOOK, 0.5),
    WEIGHTS_SEED := SelectParam("weights_seed", "The seed of dropout", _BOOK, 0),
    WEIGHTS_ON := Switch("weights_on", "As in training", _BOOK, True),
    LIN_X := ListParam("lin_x", "x of a linear layer", _BOOK),
    LIN_W := ListParam("lin_w", "Its W", _BOOK),
    LIN_B := ListParam("lin_b", "Its b", _BOOK),
    WALK_X := ListParam("walk_x", "x of an MLP", _BOOK),
    WALK_SEED := SelectParam("walk_seed", "The seed of its weights", _BOOK, 0),
    CURVE := SelectParam("curve", "The curve between", _BOOK, "GELU (erf)"),
    CURVE_X := ListParam("curve_x", "The inputs of the curves", _BOOK),
    BLOCKS_X := ListParam("blocks_x", "The input of three MLPs", _BOOK),
    BLOCKS_SEED := SelectParam("blocks_seed", "The seed of their tables", _BOOK, 0),
    DROP_P := SelectParam("drop_p", "The dropout probability", _BOOK, 0.1),
    DROP_SEED := SelectParam("drop_seed", "The seed of dropout", _BOOK, 0),
    DROP_ON := Switch("drop_on", "As in training", _BOOK, True),
    STREAM := ListParam("stream", "The stream, and what is added", _BOOK),
    STREAM_STEP := SelectParam(
        "stream_step", "The step of a token's way through the stream", _BOOK, 0, of=(MODEL,)
    ),
    NORM := ListParam("norm", "x, gain and shift of a norm", _BOOK),
    LANE_DEPTH := SelectParam("lane_depth", "Layers that a gradient runs back through", _BOOK, 12),
    DEPTH := SelectParam("depth", "Layers", _BOOK, 12),
    LINE := SelectParam("line", "The chosen line of the eighty lines of code", _BOOK),
    SIZE_VOCAB_SIZE := SelectParam("size_vocab_size", "Tokens of the vocabulary", _BOOK, 50_257),
    SIZE_N_POSITIONS := SelectParam("size_n_positions", "Tokens of the context", _BOOK, 1024),
    SIZE_N_LAYER := SelectParam("size_n_layer", "Layers", _BOOK, 12),
    SIZE_N_EMBD := SelectParam("size_n_embd", "Channels", _BOOK, 768),
    SIZE_TIED := Switch("size_tied", "One table at both ends", _BOOK, True),
    *GAP.values(),
    CACHE_X := ListParam("cache_x", "Words written with a cache", _BOOK),
    RNN_X := ListParam("rnn_x", "Words read one after the other", _BOOK),
    RNN_T := SelectParam("rnn_T", "Words that a gradient runs back over", _BOOK, 32),
    FLASH_T := SelectParam("flash_T", "Tokens read in tiles", _BOOK, 256),
    FLASH_SIZE := SelectParam("flash_size", "Keys of a tile", _BOOK, 64),
    RMS_X := ListParam("rms_x", "x of two norms", _BOOK),
    RMS_SHIFT := SelectParam("rms_shift", "A constant added to all of it", _BOOK, 1.0),
    GATE_X := ListParam("gate_x", "x of a SwiGLU", _BOOK),
    GATE_W := ListParam("gate_w", "Its gate", _BOOK),
    GATE_UP := ListParam("gate_up", "Its up", _BOOK),
    GATE_DOWN := ListParam("gate_down", "Its down", _BOOK),
    GATE_C := SelectParam("gate_C", "Channels of an MLP in both forms", _BOOK, 768),
    ROPE_QK := ListParam("rope_qk", "A query and a key to rotate", _BOOK),
    ROPE_Q := SelectParam("rope_q", "The query's position", _BOOK, 7),
    ROPE_K := SelectParam("rope_k", "The key's position", _BOOK, 4),
    ROPE_MOVE := SelectParam("rope_move", "The shift of both positions", _BOOK, 10),
    GROUP_X := ListParam("group_x", "Words read by grouped heads", _BOOK),
    GROUPS := SelectParam("groups", "Groups that share keys and values", _BOOK, 2),
    SINK_SCORES := ListParam("sink_scores", "Scores of a query that may find nothing", _BOOK),
    SINK_VALUES := ListParam("sink_values", "Values beside a sink", _BOOK),
    SINK_DROP := Switch("sink_drop", "The first token is dropped", _BOOK, False),
    TRY_C := SelectParam("try_C", "Channels", _BOOK, 768),
    TRY_NH := SelectParam("try_nh", "Heads", _BOOK, 12),
)

#: All parameters, in the order in which the docs list them.
PARAMETERS: tuple[Parameter, ...] = (*OF_EVERY_PAGE, *_OF_PAGES, *_OF_THE_BOOK)
#: The parameters by name.
NAMED: Mapping[str, Parameter] = {parameter.name: parameter for parameter in PARAMETERS}

#: The parameter that picks a page's mode, for pages that have modes.
MODE: Mapping[Page, SelectParam] = {
    mode.on[0]: mode for mode in (SEE, DIFFERS, FIND, PREDICT, WHAT_IF)
}
