"""One load for each model and one run for each ``RunKey``, shared by all visitors."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import streamlit as st
from numpy.typing import NDArray

import gpt2viz
from gpt2viz import plugins, settings
from gpt2viz.analysis import scores
from gpt2viz.analysis.generation import Choice, appraise
from gpt2viz.analysis.lens import routes as routes_to
from gpt2viz.analysis.top_attention import TopAttention, strongest_links
from gpt2viz.analysis.words import group_words, word_starts
from gpt2viz.anatomy.card import Card, read_card
from gpt2viz.anatomy.training_record import TrainingRecord, read_record
from gpt2viz.app import describe, metrics, server_config
from gpt2viz.arrays import Array, Numbers, largest
from gpt2viz.labels import bidi_isolate, label
from gpt2viz.model import hub, preload
from gpt2viz.model.checkpoint import weight_bytes
from gpt2viz.model.tokenizer import Tokenizer, load_tokenizer
from gpt2viz.pictures.pooling import thumbnails
from gpt2viz.run.edits import drop_patches, needs_means
from gpt2viz.run.key import RunKey
from gpt2viz.run.tracer import reference_ids, reference_run
from gpt2viz.survey.stored import Survey, read_survey


class Sized(Protocol):
    """An object that knows how many bytes it holds."""

    @property
    def nbytes(self) -> int:
        """Its size now; it may grow with use."""


Value = TypeVar("Value", bound=Sized)


class ByteLRUCache(Generic[Value]):
    """An LRU cache bounded by bytes: it evicts until its values fit into ``budget``.

    The most recently used value stays, however large. It is thread-safe: concurrent calls for one
    key make the value once, and making it doesn't block calls for other keys.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._bytes: dict[Hashable, int] = {}
        self._lock = Lock()
        self._key_locks: WeakValueDictionary[Hashable, Lock] = WeakValueDictionary()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of ``key``, made and cached on a miss. Raises what ``make`` raises."""
        with self._lock:
            key_lock = self._key_locks.setdefault(key, Lock())
        with key_lock:
            with self._lock:
                value = self._values.get(key)
            if value is None:
                value = make()
            with self._lock:
                self._keep(key, value)
        return value

    def __contains__(self, key: Hashable) -> bool:
        """Return whether ``key`` is cached; this doesn't count as a use."""
        return key in self._values

    def best(self, worth: Callable[[Any], float]) -> Value | None:
        """Return the value whose key is worth most, or None if no key is worth more than 0.

        Of equals, the most recently used wins."""
        with self._lock:
            key = max(reversed(self._values), key=worth, default=None)
            return None if key is None or worth(key) <= 0 else self._values[key]

    def make_room(self, nbytes: int) -> list[Hashable]:
        """Evict the least recently used until ``nbytes`` more fit; return the evicted keys."""
        with self._lock:
            evicted: list[Hashable] = []
            while self._values and sum(self._bytes.values()) + nbytes > self.budget:
                evicted.append(next(iter(self._values)))
                self._evict(evicted[-1])
            return evicted

    def forget(self, unwanted: Callable[[Any], bool]) -> None:
        """Evict every value whose key is ``unwanted``."""
        with self._lock:
            for key in list(filter(unwanted, self._values)):
                self._evict(key)

    def _evict(self, key: Hashable) -> None:
        del self._values[key], self._bytes[key]

    def _keep(self, key: Hashable, value: Value) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        self._bytes[key] = value.nbytes
        while sum(self._bytes.values()) > self.budget and len(self._values) > 1:
            self._evict(next(iter(self._values)))


#: Layers whose heads are pooled for the map in parallel.
_LAYERS_AT_A_TIME = 2
#: How Streamlit's caches hash a run: by its key's repr, which takes a thousand tokens in one step.
BY_KEY: dict[str | type[Any], Callable[[Any], Any]] = {RunKey: repr}


def model_folders() -> dict[str, Path]:
    """Name -> folder: those that the owner lists, the bundled one, and what the hub's cache holds.

    Names are unique, and a name stays with its folder whatever is fetched later. Raises
    ``CheckpointError`` if the owner's file can't be read.
    """
    fetched = ((name, folder) for name, folder in hub_cache().items() if server_config.allows(name))
    return dict(_folders(tuple(server_config.folders()), tuple(fetched), int(time.monotonic())))


@lru_cache(maxsize=1)
def _folders(
    own: tuple[Path, ...], fetched: tuple[tuple[str, Path], ...], _second: int
) -> dict[str, Path]:
    """Return the folders by name, read from disk once a second: a page calls this seven times."""
    return settings.merge_fetched(settings.name_paths(own), dict(fetched))


def is_bundled(folder: Path) -> bool:
    """Return whether a folder holds the model that came with the package."""
    return settings.real(folder) == settings.real(gpt2viz.BUNDLED)


@st.cache_resource(ttl=60, show_spinner=False)
def hub_cache() -> dict[str, Path]:
    """Name -> folder of each complete model in the hub's cache."""
    return hub.cached_models()


def name_of_fetched(name: str) -> str | None:
    """Return the app's name for a model of the hub, or None if the cache lacks some of it."""
    folder = hub_cache().get(name)
    return next((n for n, f in model_folders().items() if f == folder), None)


def load(name: str) -> gpt2viz.Model:
    """Return the model of that name, which all visitors share; older ones make room for it.

    Raises ``CheckpointError``, ``TooLargeError`` if it doesn't fit even alone, ``DeviceError``, or
    ``KeyError`` for an unknown name.
    """
    if (model := shared(name)) is not None:
        return model
    cached = models()

    def make() -> gpt2viz.Model:
        folder = model_folders()[name]
        with st.spinner("Loading the model …"):
            _forget(cached.make_room(weight_bytes(folder)))
            try:
                return gpt2viz.load_model(folder, name, server_config.device())
            except gpt2viz.TooLargeError:
                _forget(cached.make_room(cached.budget))
                return gpt2viz.load_model(folder, name, server_config.device())

    return cached.get(name, make)


def shared(name: str) -> gpt2viz.Model | None:
    """Return the model that all workers share, or None; this cache's budget excludes it."""
    return preload.find(name, model_folders()[name])


def load_as(key: Hashable, nbytes: int, make: Callable[[], gpt2viz.Model]) -> gpt2viz.Model:
    """Return a model that has no name, of ``nbytes`` bytes, cached among the others."""
    cached = models()

    def make_with_room() -> gpt2viz.Model:
        _forget(cached.make_room(nbytes))
        return make()

    return cached.get(key, make_with_room)


@st.cache_resource
def models() -> ByteLRUCache[gpt2viz.Model]:
    """Return the cache of models, shared by all visitors."""
    return ByteLRUCache(server_config.model_budget())


def _forget(names: Collection[Hashable]) -> None:
    """Evict the runs of models that were evicted: a run references its model's embedding."""
    _runs().forget(lambda key: key.model in names)


def run(key: RunKey) -> gpt2viz.Trace:
    """Return the trace of that key. Raises ``TextError``, ``ContextError`` or ``EditError``."""
    with metrics.count_while("waiting"):
        return _run(key)


def _run(key: RunKey) -> gpt2viz.Trace:
    def make() -> gpt2viz.Trace:
        model, length = load(key.model), len(key.token_ids)
        if length > (limit := server_config.longest_text(model.config)):
            limited_by = "this server" if limit < model.config.n_positions else "this model"
            raise gpt2viz.ContextError(length, limit, limited_by)
        return _trace(key)

    return _runs().get(key, make)


def _trace(key: RunKey) -> gpt2viz.Trace:
    model = load(key.model)
    means = reference(key.model) if needs_means(key.edits) else None
    source = None
    if key.patch_from:
        others = drop_patches(key.edits)
        source = _run(replace(key, token_ids=key.patch_from, edits=others, patch_from=()))
    metrics.count("runs")
    with st.spinner("Running the model …"):
        return gpt2viz.trace(
            model,
            key.token_ids,
            causal=key.causal,
            edits=key.edits,
            reference=means,
            patch_from=source,
            reuse=_runs().best(key.common_prefix_length) if not key.edits else None,
        )


@st.cache_resource
def _runs() -> ByteLRUCache[gpt2viz.Trace]:
    return ByteLRUCache(server_config.run_budget())


def reference(model_name: str) -> gpt2viz.Trace:
    """Return the run whose means replace heads: a fixed text, whatever the owner's limit."""
    key = RunKey(model_name, reference_ids(load(model_name)))
    return _runs().get(key, lambda: reference_run(load(model_name)))


def probe(key: RunKey) -> gpt2viz.Trace | None:
    """Run the model of ``key``, with its mask, on repeated random tokens, which show copying heads.

    None if the tokens don't fit.
    """
    config = load(key.model).config
    ids = scores.probe(config.vocab_size, server_config.longest_text(config))
    return run(RunKey(key.model, ids, key.causal)) if ids else None


class Scored(NamedTuple):
    """Every head score of a run, (n_layer, n_head) by name; ``failed`` says why scores of other
    packages are NaN."""

    scores: dict[str, scores.Scores]
    failed: tuple[str, ...]


@st.cache_data(max_entries=64, hash_funcs=BY_KEY, show_spinner="Scoring every head …")
def score_run(key: RunKey) -> Scored:
    """Score every head of a run, with the scores of other packages as far as they work."""
    failed: list[str] = []
    by_name = scores.head_scores(run(key), lambda error: failed.append(plugins.warn(error)))
    return Scored(by_name, tuple(failed))


#: How many words a route lists, how many heads of each, and the least nats; the rest is summed.
_WORDS, _HEADS, _LEAST = 5, 4, 0.05


class EveryHead(NamedTuple):
    """Thumbnails of all heads, ``tiles`` (n_layer, nh, side, side), and their strongest links.

    ``first`` (n_layer, nh) is the mean weight of the later queries on the first key, 0 without any.
    """

    tiles: Array
    links: TopAttention
    first: Array


@st.cache_data(max_entries=16, hash_funcs=BY_KEY, show_spinner="Drawing every head …")
def every_head(key: RunKey, whole_words: bool) -> EveryHead:
    """Pool the weights of every head in a run, between tokens or words, for the map of heads.

    ``whole_words`` has no default: Streamlit's cache takes an omitted argument as another key.
    """
    trace = run(key)
    starts = word_starts(trace.token_bytes, trace.tokens_are_words) if whole_words else None
    with ThreadPoolExecutor(_LAYERS_AT_A_TIME) as pool:  # NumPy releases the GIL
        layers = pool.map(lambda n: _layer(trace, n, starts), range(trace.config.n_layer))
        tiles, keys, strongest, first = map(np.stack, zip(*layers, strict=True))
    return EveryHead(tiles, TopAttention(keys, strongest), first)


@st.cache_data(max_entries=64, hash_funcs=BY_KEY, show_spinner="Following the next tokens back …")
def routes(key: RunKey, next_tokens: Sequence[int]) -> list[dict[str, Any]]:
    """Split the logit of each of these next tokens by the words it comes from: ``gpt2viz.route``.

    ``words`` are the largest, each with its ``key``, its ``value`` in nats over all heads, and the
    largest of its ``heads`` (layer, head, nats). ``words``, ``others``, ``mlps`` and ``rest`` sum
    to ``logit``.
    """
    trace, made = run(key), []
    names = list(map(bidi_isolate, describe.token_names(trace, "{}")))
    for route in routes_to(load(key.model), trace, next_tokens):
        by_word = route.heads.sum(axis=(0, 1))
        words = [
            {
                "key": n,
                "name": names[n],
                "value": float(by_word[n]),
                "heads": _largest_heads(route.heads[:, :, n]),
            }
            for n in largest(np.abs(by_word), _WORDS).tolist()
            if abs(by_word[n]) >= _LEAST
        ]
        mlps = sum(value for part, value in route.rest.items() if part.kind == "mlp")
        sums = {
            "others": float(by_word.sum()) - sum(word["value"] for word in words),
            "mlps": mlps,
            "rest": sum(route.rest.values()) - mlps,
            "logit": route.logit,
        }
        made.append({"words": words} | sums)
    return made


def _largest_heads(values: Numbers) -> list[tuple[int, int, float]]:
    """Return (layer, head, value) of the heads with the largest |value| in (n_layer, n_head)."""
    flat, n_head = largest(np.abs(values).ravel(), _HEADS).tolist(), values.shape[1]
    heads = [(*divmod(n, n_head), float(values.flat[n])) for n in flat]
    return [head for head in heads if abs(head[2]) >= _LEAST]


def _layer(
    trace: gpt2viz.Trace, layer: int, starts: Sequence[int] | None
) -> tuple[Array, NDArray[np.int64], Array, Array]:
    """Return a layer's thumbnails, each head's strongest links and its weight on the first key;
    between words that begin at ``starts``, if given."""
    tiles, links, first = [], [], []
    for head in trace.weights_of_heads(layer):
        weights = head[None] if starts is None else group_words(head[None], starts)
        tiles.append(thumbnails([weights])[0, 0])
        links.append(strongest_links(weights))
        first.append(weights[0, 1:, 0].sum() / max(len(weights[0]) - 1, 1))
    keys, strongest = zip(*links, strict=True)
    return np.stack(tiles), np.concatenate(keys), np.concatenate(strongest), np.stack(first)


@st.cache_data(max_entries=2000, hash_funcs=BY_KEY, show_spinner=False)
def choice(key: RunKey, token: int) -> Choice:
    """Return the probability that the model gave to ``token`` after the tokens of a run.

    It is read from any cached run that begins with these tokens, so that a text generated token by
    token takes one run and not one for each token.
    """
    cached = _runs().best(key.is_prefix_of)
    return appraise(run(key) if cached is None else cached, token, len(key.token_ids) - 1)


@st.cache_resource(max_entries=4, show_spinner="Reading the vocabulary …")
def vocabulary(model_name: str) -> tuple[str, ...]:
    """Return every token's screen label by its id; the label of an empty token has its id in it."""
    model = load(model_name)
    spelled = map(model.tokenizer.token_bytes, range(model.config.vocab_size))
    return tuple(label(token) + f" {n}" * (not token) for n, token in enumerate(spelled))


@st.cache_resource(max_entries=4, show_spinner="Reading the vocabulary …")
def token_of_label(model_name: str) -> dict[str, int]:
    """Return the id of every token of a model's vocabulary, by screen label."""
    return {written: n for n, written in enumerate(vocabulary(model_name))}


@st.cache_resource(
    max_entries=16, hash_funcs=BY_KEY, show_spinner="Reading the stream after every step …"
)
def lens(
    key: RunKey, positions: tuple[int, ...], answers: tuple[int, ...] | None = None
) -> gpt2viz.LogitLens:
    """Return the logit lens of a run at ``positions``."""
    return gpt2viz.logit_lens(load(key.model), run(key), positions, answers)


@st.cache_data(max_entries=4, show_spinner=False)
def card(model_name: str) -> Card | None:
    """Return the sanitized card in a model's folder, or None."""
    return read_card(model_folders()[model_name])


@st.cache_resource(max_entries=4, show_spinner="Reading the vocabulary …")
def tokenizer(model_name: str) -> Tokenizer:
    """Load a model's tokenizer without its weights. Raises ``CheckpointError``."""
    return load_tokenizer(model_folders()[model_name])


@st.cache_resource(max_entries=4, show_spinner=False)
def training(model_name: str) -> TrainingRecord | None:
    """Return a model's training record, or None. Raises ``CheckpointError`` for a broken record."""
    config = load(model_name).config
    return read_record(model_folders()[model_name], config.n_layer, config.n_head)


@st.cache_resource(max_entries=4, show_spinner="Reading the survey …")
def survey(model_name: str) -> Survey | None:
    """Return the survey beside a model, or None. Raises ``CheckpointError`` for a broken one."""
    model = load(model_name)
    if model.weight_files is None:
        return None
    sizes = (model.config.n_layer, model.config.n_head)
    return read_survey(model_folders()[model_name], model.weight_files, *sizes)
