"""Learning: a batch and its loss, one step, training small models, and the real model's record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from threading import Semaphore
from typing import Any, NamedTuple

import numpy as np
import streamlit as st
from numpy.typing import ArrayLike

from gpt2viz import CheckpointError
from gpt2viz.analysis.sampling import surprise
from gpt2viz.app import address, jobs, output, parameters, prose, run_cache
from gpt2viz.app.course.parts import Book, pick, picture, vectors
from gpt2viz.app.course.questions import Check
from gpt2viz.app.course.tables import Table
from gpt2viz.app.course.written import decimals, equals, latex_decimals
from gpt2viz.app.jobs import Job
from gpt2viz.app.literal import literal
from gpt2viz.labels import label, numeral, pluralize
from gpt2viz.model.tuning import threads
from gpt2viz.pictures.training import curves_at, loss_curves, losses_of_models
from gpt2viz.textbook import learning
from gpt2viz.textbook.learning import Point, Setting

_RATES = [0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
_SECOND = "The end."
#: A low loss on the two words; a table of what follows each letter can't get below 0.2387.
_LOW = 0.3


def batch(book: Book, text: str) -> dict[str, Any]:
    """Draw the sentence and a second text, with each token's target."""
    book.write(text, ignored=numeral(learning.IGNORED), second=_SECOND)
    view = book.view
    texts = [view.trace.token_ids, view.model.tokenizer.encode(_SECOND)]
    inputs, targets = (np.asarray(part) for part in learning.batch(texts))

    def spell(id: int) -> str:
        return f"{label(view.model.tokenizer.token_bytes(id))}  ({id})"

    columns: dict[str, list[str]] = {}
    for n, name in enumerate(("sentence", "second row")):
        read = list(zip(inputs[n].tolist(), targets[n].tolist(), strict=True))
        columns[f"{name} reads"] = [
            "padding" if target == learning.IGNORED else spell(id) for id, target in read
        ]
        columns[f"{name}: target"] = [
            numeral(target) if target == learning.IGNORED else spell(target) for _, target in read
        ]
    output.table(columns, "A batch and its targets", hide_index=None, tallest=360)
    bits = surprise(view.trace)[1:]
    return {
        "places": targets.size,
        "lessons": pluralize(int((targets != learning.IGNORED).sum()), "targets"),
        "alone": not len(bits),
        "measured": bool(len(bits) and np.isfinite(bits).all()),
        "sentence_loss": f"{float(bits.mean() * np.log(2)):.4f}" if len(bits) else "",
        "nothing_costs": f"{np.log(view.model.config.vocab_size):.2f}",
    }


def loss_by_hand(book: Book, text: str) -> dict[str, Any]:
    """Draw a table of logits, and its loss on two words."""
    first, second = learning.WORDS
    book.write(text, first_word=first, second_word=second)
    left, right = st.columns([3, 4], gap="large")
    with left:
        after = [f"after {letter}" for letter in learning.LETTERS]
        logits = Table(
            parameters.LEARN_LOGITS, "Logits", learning.LOGITS, after, learning.LETTERS
        ).draw()
    read, targets = (part.flatten() for part in learning.words())
    costs = learning.cross_entropy(logits[read], targets)
    counts = np.asarray(targets != learning.IGNORED)
    with right:
        chances = np.asarray(costs.probabilities)
        rows = {
            "target": _target_labels(),
            "p of the target": [
                f"{chances[n, targets[n]]:.4f}" if counts[n] else "" for n in range(len(counts))
            ],
            "−ln p": [f"{x:.4f}" if c else "" for x, c in zip(costs.each, counts, strict=True)],
        }
        output.table(rows, "The loss of each target", tallest=388, of_run=False)
    each, loss = np.asarray(costs.each, float)[counts], float(costs.mean)
    low, edited = loss < _LOW, not np.allclose(logits, learning.LOGITS)
    return {
        "logits": logits,
        "each": latex_decimals(each, decimals(each, np.mean, loss)),
        "mean": equals(loss),
        "n_lessons": len(each),
        "ignore_index": learning.IGNORED,
        "by_torch": f"{float(learning.torch_cross_entropy(logits[read], targets)):.4f}",
        "n_letters": len(learning.LETTERS),
        "unknowing": f"{np.log(len(learning.LETTERS)):.4f}",
        "low": _LOW,
        "learn_floor": Check(low, f"Now it is {loss:.4f}." if edited and not low else ""),
    }


def _target_labels() -> list[str]:
    """List each letter of the two words with the next one, and the padding."""
    longest = max(map(len, learning.WORDS)) - 1
    lessons = []
    for word in learning.WORDS:
        lessons += [f"{a} → {b}" for a, b in pairwise(word)]
        lessons += ["padding"] * (longest + 1 - len(word))
    return lessons


def _loss(logits: ArrayLike) -> float:
    """Return the mean loss of a table of logits on the two words."""
    read, targets = (part.flatten() for part in learning.words())
    return float(learning.cross_entropy(np.asarray(logits)[read], targets).mean)


def step(book: Book) -> dict[str, Any]:
    """Draw one step of gradient descent."""
    logits = book.values["logits"]
    rate = pick("Learning rate", parameters.LEARN_RATE, _RATES)
    lessons = learning.words()
    read, targets = (part.flatten() for part in lessons)
    uphill = learning.gradient(logits[read], targets)
    moved = learning.step(logits, lessons, rate)
    before, after = _loss(logits), _loss(moved)
    left, right = st.columns([4, 3], gap="large")
    names, letters = ("target", "next letter"), learning.LETTERS
    with left:
        panel = vectors("gradient at the logits", uphill, _target_labels(), letters, names)
        picture("learn_gradient", [panel], height=360)
    with right:
        panel = vectors("logits after the step", moved, letters, letters, ("after", "next letter"))
        picture("learn_table", [panel], height=230)
        st.metric("Loss after the step", f"{after:.4f}", f"{after - before:+.4f}", "inverse")
    rates = np.geomspace(_RATES[0], _RATES[-1], 61)
    losses = [_loss(learning.step(logits, lessons, float(rate))) for rate in rates]
    drawn = curves_at(
        "Loss after one step, by learning rate",
        rates,
        {"after the step": losses, "before": np.full(len(rates), before)},
        "learning rate",
        "loss",
    )
    output.picture(replace(drawn, log=True, height=240), key="rates", of_run=False)
    return {
        "before": f"{before:.4f}",
        "after": f"{after:.4f}",
        "learn_rise": Check(after > before),
    }


def ablation(book: Book, text: str) -> dict[str, Any]:
    """Train small models, each with one more part, once the button is pressed."""
    size = Setting()
    book.write(text, letters=size.T, nh=size.nh, count=len(learning.PARTS))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        seed: int = st.selectbox("Seed", width=120, **address.choice(parameters.LEARN_SEED, SEEDS))
        job = training(seed)
        if not jobs.run([job], "Training", "Train the models", "training"):
            return {"all_trained": False}
    learned: dict[str, Learned] = job.result
    done = {name: model for name, model in learned.items() if model.written}
    if any(len(model.points) > 1 for model in learned.values()):
        _draw_losses(learned, done)
    losses = {name: model.points[-1].loss for name, model in done.items()}
    won = {b: losses[a] - losses[b] for a, b in pairwise(losses)}
    ranked = sorted(won, key=won.__getitem__)
    return {
        "all_trained": len(done) == len(learning.PARTS),
        "changes": ", ".join(f"{name} {numeral(-change, '+.3f')}" for name, change in won.items()),
        "most": ranked[-1] if ranked else "",
        "raised": " and ".join(f"*{name}*" for name in won if won[name] < 0),
    }


def _draw_losses(models: Mapping[str, Learned], done: Mapping[str, Learned]) -> None:
    """Draw the losses measured so far, and a table of the models that are ``done``."""
    measured = {name: dict(model.points) for name, model in models.items()}
    drawn = losses_of_models("Held-out loss of each model, by training step", measured)
    output.picture(drawn, key="learn_losses", of_run=False)
    last = [model.points[-1].loss for model in done.values()]
    output.table(
        {
            "model": list(done),
            "parameters": [model.n_parameters for model in done.values()],
            "loss": last,
            "as unsure as among": [f"{learning.perplexity(loss):.1f} letters" for loss in last],
            "it writes": [model.written for model in done.values()],
        },
        "One part more in each row",
        of_run=False,
        formats={"parameters": "localized", "loss": "%.4f"},
    )


def real_record(book: Book) -> dict[str, Any]:
    """Draw the training record of the model above."""
    model = book.view.model
    try:
        record = run_cache.training(model.name)
    except CheckpointError as error:
        prose.markdown(literal(str(error)))
        return {"unrecorded": False, "recorded": False}
    if record is None:
        return {"unrecorded": True, "recorded": False}
    drawn = loss_curves("Loss of the model above, by tokens read", record)
    output.picture(drawn, key="learn_real", of_run=False)
    first, last = (float(record.held_out[n]) for n in (0, -1))
    n_vocab = model.config.vocab_size
    return {
        "unrecorded": False,
        "recorded": True,
        "millions": f"{record.tokens[-1] / 1e6:.1f}",
        "first": f"{first:.2f}",
        "last": f"{last:.2f}",
        "worse": first > np.log(n_vocab),
        "n_vocab": f"{n_vocab:,}",
        "nothing": f"{np.log(n_vocab):.2f}",
        "unsure_first": f"{learning.perplexity(first):,.0f}",
        "unsure_last": f"{learning.perplexity(last):,.0f}",
    }


#: The seeds offered: they limit a server's training runs, which are cached for all visitors.
SEEDS = range(5)
#: Letters that each model writes at the end.
WRITTEN = 60

_ONE_AT_A_TIME = Semaphore()


class Learned(NamedTuple):
    """A model's losses so far, its number of parameters, and what it wrote at the end."""

    points: tuple[Point, ...]
    n_parameters: int
    written: str = ""


def train_all(seed: int, size: Setting, job: Job) -> dict[str, Learned]:
    """Wait until no other training runs, then train one model after the other.

    Those begun so far, by name, are the results of the ``job``.
    """
    while not _ONE_AT_A_TIME.acquire(timeout=0.5):
        job.tell(0.0)
    try:
        return _train(seed, size, job)
    finally:
        _ONE_AT_A_TIME.release()


def _train(seed: int, size: Setting, job: Job) -> dict[str, Learned]:
    text, done = learning.corpus(), dict[str, Learned]()
    small = {name: learning.build(name, len(text.letters), size, seed) for name in learning.PARTS}
    counts = {name: sum(p.numel() for p in model.parameters()) for name, model in small.items()}
    before = 0
    for name, model in small.items():
        points: list[Point] = []
        with threads(size.B * size.T * counts[name]):
            for point in learning.train(model, text, size, seed):
                points.append(point)
                # A step's time is about proportional to the model's parameters.
                steps = before + counts[name] * point.step / size.steps
                so_far = done | {name: Learned(tuple(points), counts[name])}
                job.report(so_far, steps / sum(counts.values()))
            written = learning.write(model, text.letters, size.T, WRITTEN, seed)
        done[name] = Learned(tuple(points), counts[name], written)
        before += counts[name]
    return done


@st.cache_resource(max_entries=len(SEEDS), show_spinner=False)
def training(seed: int) -> Job:
    """Return the training run of that seed, which all visitors share."""
    return Job(partial(train_all, seed, Setting()), {})
