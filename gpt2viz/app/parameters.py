"""The address's parameters, each declared once: its kind of value, its pages, its meaning.

Pages read them through ``app/address.py``: ``address.choice(parameters.LAYER, range(4))``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from gpt2viz.analysis.cell import parse_steps, remap_steps
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

    ``default`` applies if the address has no value; it is None if it depends on the sentence or
    the model, or if nothing is chosen at first. ``on`` are the pages that read it: most are of the
    Textbook's examples. ``moves`` updates its text as the sentence's tokens move. It is forgotten
    when one of the parameters that it is chosen ``of`` changes.
    """

    name: str
    says: str
    default: Any = None
    on: tuple[Page, ...] = (pages.TEXTBOOK,)
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


def move_tokens(raw: str, to: To, _all: Mapping[str, str]) -> str:
    """Move positions, separated by commas."""
    positions = (to(int(n)) for n in raw.split(","))
    return ",".join(str(position) for position in positions if position is not None)


def move_parsed(parse: Callable[[str], T], remap: Callable[[T, To], Iterable[Any]]) -> Move:
    """Return a function that moves a list of cells, edits or steps, which ``parse`` reads."""
    return lambda raw, to, _all: ",".join(map(str, remap(parse(raw), to)))


move_cells = move_parsed(parse_cells, remap_cells)
move_edits = move_parsed(parse_edits, remap_edits)
move_steps = move_parsed(parse_steps, remap_steps)


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
_WHAT_IF, _GROWTH = (pages.WHAT_IF,), (pages.TRAINING,)

#: Parameters that every page reads, as its frame shows them.
OF_EVERY_PAGE: tuple[Parameter, ...] = (
    TEXT := Text("text", "The sentence", "The cat sat on the mat and the cat sat", on=pages.MENU),
    MODEL := SelectParam("model", "The model, by its name", on=pages.MENU),
    CAUSAL := Switch("causal", "The causal mask", True, on=pages.MENU),
    BOS := Switch("bos", "Put the beginning-of-text token first", on=pages.MENU),
    QUERY := SelectParam(
        "query", "The chosen token, by position", on=pages.MENU, moves=move_tokens
    ),
    FROM := SelectParam("from", "The first token that is shown of a long text", on=pages.MENU),
    TOUR := SelectParam("tour", "The step of the tour", on=pages.PAGES),
    PRESENT := Switch(
        "present", "Large labels and no controls, for a lecture room", False, on=pages.PAGES
    ),
    ADDED := Text("added", "A page that another package adds", on=(pages.ADDED,)),
)

#: Parameters of single pages, or of some.
_OF_PAGES: tuple[Parameter, ...] = (
    LAYER := SelectParam("layer", "The layer", on=(*_HEADS, pages.TRAINING, pages.MODELS)),
    HEAD := SelectParam("head", "The head", on=(*_HEADS, pages.TRAINING)),
    PICTURE := SelectParam("picture", "Weights as a `matrix` or as `lines`", "matrix", on=_LINES),
    ZOOM := ListParam(
        "zoom",
        "The part that is shown: first query, end of the queries, first key, end of the keys",
        on=_PARTS,
        moves=move_part,
        of=(TEXT, BOS),
    ),
    MORE := MultiParam("more", "Heads drawn over the chosen one", on=(pages.ATTENTION,)),
    SHOW := SelectParam(
        "show",
        "What is shown: `weights`, `rest` (without the first column) or `norms` (value-weighted)",
        "weights",
        on=_FIRST,
    ),
    WORDS := Switch("words", "Tokens grouped into words", False, on=_FIRST),
    KEY := SelectParam("key", "The key token, by position", on=(pages.HEAD,), moves=move_tokens),
    SEE := SelectParam(
        "see",
        "The head in the `run` of the sentence, `why` it looks there, or by its `weights` alone",
        "run",
        on=(pages.HEAD,),
    ),
    TOKEN := Text(
        "token",
        "By its weights: the token whose effect is shown, as written on screen",
        on=(pages.HEAD,),
        of=(QUERY,),
    ),
    WHY := ListParam(
        "why",
        "Why does it look there? Heads on the path down, each by layer and head, query and key: "
        "`0.0:2:1`",
        on=(pages.HEAD,),
        moves=move_steps,
        of=(LAYER, HEAD, QUERY, KEY),
    ),
    PARTS := SelectParam(
        "parts",
        "What pairs of parts add to a score, `beyond` the row's mean or `raw`; or the strongest "
        "`path` down to the tokens",
        "beyond",
        on=(pages.HEAD,),
    ),
    WITHOUT := Switch(
        "without",
        "Why: also run the whole model without each of the heads",
        False,
        on=(pages.HEAD,),
    ),
    EDITED := Switch("edited", "Why: for the run with the `edits`", False, on=(pages.HEAD,)),
    DIFFERS := SelectParam(
        "differs",
        "What differs between the sides: `layers`, `mask`, `text`, `head` or `model`",
        "layers",
        on=_SIDES,
    ),
    LAYERS := MultiParam("layers", "Two to four layers, side by side", on=_SIDES),
    COMPARE := SelectParam(
        "compare", "All heads of a layer instead of the chosen one: `mean` or `rollout`", on=_SIDES
    ),
    FIND := SelectParam(
        "find",
        "How to find heads: `habit`, `look`, `pattern`, `head`, `all` or `wiring`",
        "habit",
        on=_FIND,
    ),
    HABIT := SelectParam("habit", "The score by which heads are ranked", "induction", on=_FIND),
    ON := SelectParam(
        "on",
        "Scores on the `sentence`, the `probe` or `texts`, or by the `weights` alone",
        on=_FIND,
    ),
    ONLY := MultiParam("only", "Layers whose heads are listed", on=_FIND),
    KEYS := MultiParam("keys", "The attended tokens, by position", on=_FIND, moves=move_tokens),
    RANK := SelectParam("rank", "How attention to them is measured", "attention weight", on=_FIND),
    PATTERN := SelectParam("pattern", "The pattern that is drawn", "back", on=_FIND),
    N := SelectParam("n", "The pattern's number", on=_FIND, moves=move_token_of_pattern),
    CELLS := ListParam(
        "cells", "Cells painted over the pattern: `3:1,4:2`", on=_FIND, moves=move_cells
    ),
    ALIKE := SelectParam("alike", "The minimum similarity of heads in a group", 0.9, on=_FIND),
    MEASURE := SelectParam(
        "measure",
        "Wiring: how heads are compared, by the Projection `kernel` or the `ratio` of norms",
        "kernel",
        on=_FIND,
    ),
    INTO := SelectParam("into", "Wiring: edges into `q`, `k` or `v`, or `all`", "all", on=_FIND),
    MOST := SelectParam("most", "Wiring: the number of strongest edges", 20, on=_FIND),
    EDGE := ListParam(
        "edge",
        "Wiring: the chosen edge, from a head into another's q, k or v: `0.0:1.4:k`",
        on=_FIND,
        of=(MODEL,),
    ),
    PATH := Switch(
        "path", "Wiring: the chosen edge's path is patched between two sentences", False, on=_FIND
    ),
    SCORE := SelectParam("score", "The score that is followed", on=_GROWTH),
    STEP := SelectParam(
        "step", "The training step of one of the model's own checkpoints", on=_GROWTH
    ),
    SINCE := SelectParam("since", "The step with which the chosen one is compared", on=_GROWTH),
    AGAINST := SelectParam("against", "The head whose birth is compared: `1.7`", on=_GROWTH),
    PREDICT := SelectParam("predict", "The `next` token, or `generate` more", "next", on=_PREDICT),
    TEMPERATURE := SelectParam("temperature", "Temperature", 1.0, on=_PREDICT),
    TOP_K := SelectParam("top_k", "Top-k", "all", on=_PREDICT),
    TOP_P := SelectParam("top_p", "Top-p", 1.0, on=_PREDICT),
    EXPLAIN := Text("explain", "The token whose logit is decomposed", on=_PREDICT),
    MINUS := Text("minus", "The token whose logit is subtracted", "nothing", on=_PREDICT),
    WHAT_IF := SelectParam(
        "what_if",
        "`edits` of one run, or patching: what the answer `depends` on",
        "edits",
        on=_WHAT_IF,
    ),
    EDITS := ListParam(
        "edits",
        "Edits in the order in which they apply: `off:1.3,window:2`",
        on=(pages.ATTENTION, pages.WHAT_IF, pages.HEAD),
        moves=move_edits,
    ),
    SEED := SelectParam("seed", "The seed of sampling", 0, on=_PREDICT),
    NEW := ListParam(
        "new", "Tokens generated so far, after a checksum of what they continue", on=_PREDICT
    ),
    CACHE := Switch("cache", "Generate: the cache of keys and values is shown", False, on=_PREDICT),
    ROOM := SelectParam("room", "The size of a fixed cache, in tokens", 4, on=_PREDICT),
    SINKS := SelectParam("sinks", "The number of first tokens that it keeps", 1, on=_PREDICT),
    TEXT2 := Text("text2", "The second sentence", on=(*_SIDES, *_FIND, *_WHAT_IF)),
    MATCH := ListParam(
        "match",
        "Tokens that belong together: `1:6,3:2`",
        on=_SIDES,
        moves=move_cells,
        of=(TEXT2,),
    ),
    WHOLE := Switch(
        "whole", "The mean of all heads instead of one", False, on=(*_SIDES, *_WHAT_IF)
    ),
    LAYER2 := SelectParam("layer2", "The layer of B", on=_SIDES),
    HEAD2 := SelectParam("head2", "The head of B", 0, on=_SIDES),
    MODEL2 := SelectParam("model2", "The model of B", on=_SIDES),
    OVER := SelectParam(
        "over", "Models: over this `sentence`, or over many `texts`", "sentence", on=_SIDES
    ),
    TEXTS := Text(
        "texts",
        "The texts on which two models are compared, one per line",
        "",
        on=(*_SIDES, *_GROWTH),
    ),
    MOVED := SelectParam(
        "moved",
        "How changes of heads are measured: `output` or `pattern`, of the model or their `own`",
        "own output",
        on=(*_SIDES, *_GROWTH),
    ),
    DIRECTION := SelectParam(
        "direction",
        "Patching: `denoise` puts a piece of the first run into the second, `noise` one of the "
        "second into the first",
        "denoise",
        on=_WHAT_IF,
    ),
    METRIC := SelectParam(
        "metric",
        "What is measured: `logit difference`, `probability` or `divergence`",
        "logit difference",
        on=_WHAT_IF,
    ),
    RIGHT := Text("right", "The right next token, of the first run", on=_WHAT_IF),
    WRONG := Text("wrong", "The wrong next token, of the second run", on=_WHAT_IF),
    PIECE := SelectParam(
        "piece",
        "What of every head is patched: `head_output`, `q`, `k`, `v` or `weights`",
        "head_output",
        on=_WHAT_IF,
    ),
    PATCH := ListParam(
        "patch",
        "Patching: the piece that is copied into the other run, as an edit, "
        "`patch:residual_in:2:7` or `patch:q:1.4`",
        on=_WHAT_IF,
        moves=move_edits,
    ),
    DETAIL := SelectParam(
        "detail",
        "Patching: below the maps one `patch`, the `paths` into its head, or the `fewest` heads "
        "that keep the answer",
        "patch",
        on=_WHAT_IF,
    ),
    FILTER := Text("filter", "Only rows with this text are shown", "", on=(pages.SHAPES,)),
    PART := SelectParam("part", "The section", "all", on=(pages.MODELS,)),
    WORD := Text("word", "The text to tokenize", " unbelievable", on=(pages.MODELS,)),
    FIND_WORD := Text("find_word", "Words with this in name or meaning", "", on=(pages.GLOSSARY,)),
    TERM := SelectParam("term", "The highlighted word", on=(pages.GLOSSARY,)),
    CHAPTER := SelectParam("chapter", "The chapter"),
    EXAMPLE := SelectParam("example", "The worked example that the chapter opens at"),
)

#: The parameter of the expression in each gap of *Build it yourself*.
GAP: Mapping[str, Text] = {
    gap.name: Text(f"build_{gap.name}", f"Build it yourself: {gap.title}", "") for gap in GAPS
}
#: Parameters of the Textbook's examples.
_OF_THE_BOOK: tuple[Parameter, ...] = (
    LAST_X := ListParam("last_x", "The last vector"),
    LAST_ROWS := ListParam("last_rows", "A vocabulary of four"),
    HEAT := SelectParam("heat", "Temperature", 1.0),
    TARGET := SelectParam("target", "The word that comes next", "fish"),
    LEARN_LOGITS := ListParam("learn_logits", "Logits for what follows each letter"),
    LEARN_RATE := SelectParam("learn_rate", "The learning rate of one step", 3.0),
    LEARN_SEED := SelectParam("learn_seed", "The seed of a small training", 0),
    PLANE_WORDS := Text(
        "plane_words", "Words drawn as points", "king queen man woman cat dog river sea red green"
    ),
    PLANE_SUM := Text(
        "plane_sum",
        "The first minus the second plus the third, and the expected word",
        "king man woman queen",
    ),
    TINY_WORDS := ListParam("tiny_words", "The tiny crane's token table"),
    TINY_PLACES := ListParam("tiny_places", "Its position vectors"),
    TINY_Q0 := ListParam("tiny_q0", "W_Q of its head 0"),
    TINY_K0 := ListParam("tiny_k0", "W_K of its head 0"),
    TINY_V0 := ListParam("tiny_v0", "W_V of its head 0"),
    TINY_Q1 := ListParam("tiny_q1", "W_Q of its head 1"),
    TINY_K1 := ListParam("tiny_k1", "W_K of its head 1"),
    TINY_V1 := ListParam("tiny_v1", "W_V of its head 1"),
    TINY_MERGE := ListParam("tiny_merge", "Its W_O"),
    TINY_WIDEN := ListParam("tiny_widen", "Its MLP's first matrix, with biases"),
    TINY_BACK := ListParam("tiny_back", "Its MLP's second matrix"),
    MASK_SCORES := ListParam("mask_scores", "Scaled scores"),
    MIX_STEP := SelectParam("mix_step", "The step of the crane's mixture", 0),
    MERGE_STEP := SelectParam("merge_step", "The step of a word's merges", 0, of=(MODEL,)),
    MASK_STEP := SelectParam("mask_step", "The step of the mask as it closes", 0),
    MASK_ON := Switch("mask_on", "The causal mask", True),
    ORDER_WORDS := ListParam("order_words", "Word vectors"),
    ORDER_PLACES := ListParam("order_places", "Position vectors"),
    ORDER_ON := Switch("order_on", "Position vectors are added", False),
    MASK_PLACES := Switch("mask_places", "The same with only the mask", False),
    ORDER_MASK := Switch("order_mask", "The causal mask", False),
    CRANE := SelectParam("crane", "The sentence with the crane: `bird` or `machine`", "bird"),
    CRANE_HEAT := SelectParam("crane_heat", "The temperature of the crane's softmax", 1.0),
    CRANE_MASK := Switch("crane_mask", "Later words are hidden from the crane", False),
    CRANE_Q := ListParam("crane_q", "The crane's query"),
    CRANE_K_BIRD := ListParam("crane_k_bird", "Keys beside the bird"),
    CRANE_V_BIRD := ListParam("crane_v_bird", "Values beside the bird"),
    CRANE_K_MACHINE := ListParam("crane_k_machine", "Keys beside the machine"),
    CRANE_V_MACHINE := ListParam("crane_v_machine", "Values beside the machine"),
    JOURNEY_X := ListParam("journey_x", "Six words"),
    JOURNEY_Q := SelectParam("journey_q", "The query's word", 1),
    HAND_TABLES := SelectParam("hand_tables", "Its tables: `named`, or drawn at `random`", "named"),
    HAND_X := ListParam("hand_x", "Four words"),
    HAND_WQ := ListParam("hand_wq", "W_Q"),
    HAND_WK := ListParam("hand_wk", "W_K"),
    HAND_WV := ListParam("hand_wv", "W_V"),
    HS := SelectParam("hs", "The head size", 64),
    WAY_STEP := SelectParam("way_step", "The step of vectors that are split into heads", 0),
    VALUES_X := ListParam("values_x", "Words that are attended to"),
    VALUES_WV := ListParam("values_wv", "Their values: W_V"),
    WAY_B := SelectParam("way_B", "Texts at once", 2),
    WAY_T := SelectParam("way_T", "Tokens", 6),
    WAY_C := SelectParam("way_C", "Channels", 768),
    WAY_NH := SelectParam("way_nh", "Heads", 12),
    VARIANTS_X := ListParam("variants_x", "The input of four ways"),
    VARIANTS_SEED := SelectParam("variants_seed", "The seed of the weights", 0),
    WEIGHTS_P := SelectParam("weights_p", "The probability of dropping a weight", 0.5),
    WEIGHTS_SEED := SelectParam("weights_seed", "The seed of dropout", 0),
    WEIGHTS_ON := Switch("weights_on", "As in training", True),
    LIN_X := ListParam("lin_x", "x of a linear layer"),
    LIN_W := ListParam("lin_w", "Its W"),
    LIN_B := ListParam("lin_b", "Its b"),
    WALK_X := ListParam("walk_x", "x of an MLP"),
    WALK_SEED := SelectParam("walk_seed", "The seed of its weights", 0),
    CURVE := SelectParam("curve", "The curve between", "GELU (erf)"),
    CURVE_X := ListParam("curve_x", "The inputs of the curves"),
    BLOCKS_X := ListParam("blocks_x", "The input of three MLPs"),
    BLOCKS_SEED := SelectParam("blocks_seed", "The seed of their tables", 0),
    DROP_P := SelectParam("drop_p", "The dropout probability", 0.1),
    DROP_SEED := SelectParam("drop_seed", "The seed of dropout", 0),
    DROP_ON := Switch("drop_on", "As in training", True),
    STREAM := ListParam("stream", "The stream, and what is added"),
    STREAM_STEP := SelectParam(
        "stream_step", "The step of a token's way through the stream", 0, of=(MODEL,)
    ),
    NORM := ListParam("norm", "x, gain and shift of a norm"),
    LANE_DEPTH := SelectParam("lane_depth", "Layers that a gradient runs back through", 12),
    DEPTH := SelectParam("depth", "Layers", 12),
    LINE := SelectParam("line", "The chosen line of the eighty lines of code"),
    SIZE_VOCAB_SIZE := SelectParam("size_vocab_size", "Tokens of the vocabulary", 50_257),
    SIZE_N_POSITIONS := SelectParam("size_n_positions", "Tokens of the context", 1024),
    SIZE_N_LAYER := SelectParam("size_n_layer", "Layers", 12),
    SIZE_N_EMBD := SelectParam("size_n_embd", "Channels", 768),
    SIZE_TIED := Switch("size_tied", "One table at both ends", True),
    *GAP.values(),
    CACHE_X := ListParam("cache_x", "Words written with a cache"),
    RNN_X := ListParam("rnn_x", "Words read one after the other"),
    RNN_T := SelectParam("rnn_T", "Words that a gradient runs back over", 32),
    FLASH_T := SelectParam("flash_T", "Tokens read in tiles", 256),
    FLASH_SIZE := SelectParam("flash_size", "Keys of a tile", 64),
    RMS_X := ListParam("rms_x", "x of two norms"),
    RMS_SHIFT := SelectParam("rms_shift", "A constant added to all of it", 1.0),
    GATE_X := ListParam("gate_x", "x of a SwiGLU"),
    GATE_W := ListParam("gate_w", "Its gate"),
    GATE_UP := ListParam("gate_up", "Its up"),
    GATE_DOWN := ListParam("gate_down", "Its down"),
    GATE_C := SelectParam("gate_C", "Channels of an MLP in both forms", 768),
    ROPE_QK := ListParam("rope_qk", "A query and a key to rotate"),
    ROPE_Q := SelectParam("rope_q", "The query's position", 7),
    ROPE_K := SelectParam("rope_k", "The key's position", 4),
    ROPE_MOVE := SelectParam("rope_move", "The shift of both positions", 10),
    GROUP_X := ListParam("group_x", "Words read by grouped heads"),
    GROUPS := SelectParam("groups", "Groups that share keys and values", 2),
    SINK_SCORES := ListParam("sink_scores", "Scores of a query that may find nothing"),
    SINK_VALUES := ListParam("sink_values", "Values beside a sink"),
    SINK_DROP := Switch("sink_drop", "The first token is dropped", False),
    TRY_C := SelectParam("try_C", "Channels", 768),
    TRY_NH := SelectParam("try_nh", "Heads", 12),
)

#: All parameters, in the order in which the docs list them.
PARAMETERS: tuple[Parameter, ...] = (*OF_EVERY_PAGE, *_OF_PAGES, *_OF_THE_BOOK)
#: The parameters by name.
NAMED: Mapping[str, Parameter] = {parameter.name: parameter for parameter in PARAMETERS}

#: The parameter that picks a page's mode, for pages that have modes.
MODE: Mapping[Page, SelectParam] = {
    pages.HEAD: SEE,
    pages.SIDE_BY_SIDE: DIFFERS,
    pages.FIND: FIND,
    pages.PREDICT: PREDICT,
    pages.WHAT_IF: WHAT_IF,
}
