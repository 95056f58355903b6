"""Learning: a batch and its loss, one step, four small models trained, and the real one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from threading import Semaphore
from typing import NamedTuple

import numpy as np
import streamlit as st

from gpt2viz import CheckpointError, Model
from gpt2viz.analysis.sampling import surprise
from gpt2viz.anatomy.training_record import TrainingRecord
from gpt2viz.app import address, jobs, output, pages, parameters, prose, run_cache
from gpt2viz.app.course.parts import Book, code, link, picture, vectors
from gpt2viz.app.course.questions import Question
from gpt2viz.app.course.tables import table
from gpt2viz.app.course.written import enough, equals, spelled
from gpt2viz.app.jobs import Job
from gpt2viz.app.literal import literal
from gpt2viz.app.view import View
from gpt2viz.arrays import Array
from gpt2viz.labels import label, pluralize, signed
from gpt2viz.model.tuning import threads
from gpt2viz.pictures.training import curves_at, loss_curves, losses_of_models
from gpt2viz.textbook import learning
from gpt2viz.textbook.heads import CausalAttention, MultiHeadAttention
from gpt2viz.textbook.learning import Point, Setting

_RATES = [0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
_SECOND = "The end."
#: A table that says what follows one letter can't get below 0.2387 on the two words.
_LOW = 0.3


def draw(book: Book) -> Iterator[Question]:
    """From one batch to a trained model."""
    prose.markdown(
        "A new model's parameters are random numbers, and so is what it says. Training repeats "
        "three things: let it say what comes next, measure how wrong it was, and move every "
        "parameter a little, so that it would have been less wrong."
    )
    _batch(book.view)
    logits, loss = _by_hand()
    rose = _step(book, logits)
    yield from _questions(loss, rose, not np.allclose(logits, learning.LOGITS))
    _four(book)
    _real(book)


def _batch(view: View) -> None:
    st.subheader("A batch", anchor="batch")
    prose.markdown(
        "The text is its own answer: the **target** of each token is the one that follows. Texts "
        "that are read together stand in the rows of one table, and shorter ones are padded. A "
        f"padded place gets the target **{signed(learning.IGNORED)}**, which says: this doesn't "
        f"count. Here is your sentence, with “{_SECOND}” as a second row:"
    )
    texts = [view.trace.token_ids, view.model.tokenizer.encode(_SECOND)]
    inputs, targets = (np.asarray(part) for part in learning.batch(texts))

    def written(id: int) -> str:
        return f"{label(view.model.tokenizer.token_bytes(id))}  ({id})"

    columns: dict[str, list[str]] = {}
    for n, name in enumerate(("sentence", "second row")):
        lessons = targets[n] != learning.IGNORED
        columns[f"{name} reads"] = [
            written(id) if counts else "padding"
            for id, counts in zip(inputs[n].tolist(), lessons, strict=True)
        ]
        columns[f"{name}: target"] = [
            written(id) if counts else signed(id)
            for id, counts in zip(targets[n].tolist(), lessons, strict=True)
        ]
    output.table(
        columns, "A batch and its targets", hide_index=None, height=36 * min(len(inputs[0]) + 1, 10)
    )
    count = int((targets != learning.IGNORED).sum())
    summary = f"{targets.size} places, **{pluralize(count, 'lessons')}**."
    bits = surprise(view.trace)[1:]
    if not len(bits):
        summary += " Your single token is no lesson: nothing follows it."
    elif np.isfinite(bits).all():
        nats = float(bits.mean() * np.log(2))
        summary += f" On your sentence alone, the loss of the model above is {nats:.4f} nats."
    prose.markdown(summary)
    code(learning.batch)


def _by_hand() -> tuple[Array, float]:
    """The table of logits and its loss."""
    st.subheader("Its loss, by hand", anchor="loss")
    prose.markdown(
        "The smallest model of all is a table: for each letter, a row of logits for the next. Its "
        f"batch is made of **{learning.WORDS[0]}** and **{learning.WORDS[1]}**. Change a logit:"
    )
    left, right = st.columns([3, 4], gap="large")
    with left:
        logits = table(
            parameters.LEARN_LOGITS,
            "Logits",
            learning.LOGITS,
            [f"after {letter}" for letter in learning.LETTERS],
            learning.LETTERS,
        )
    inputs, targets = (part.flatten() for part in learning.words())
    costs = learning.cross_entropy(logits[inputs], targets)
    counts = np.asarray(targets != learning.IGNORED)
    with right:
        chances = np.asarray(costs.probabilities)
        rows = {
            "lesson": _lessons(),
            "p of the target": [
                f"{chances[n, targets[n]]:.4f}" if counts[n] else "" for n in range(len(counts))
            ],
            "−ln p": [f"{x:.4f}" if c else "" for x, c in zip(costs.each, counts, strict=True)],
        }
        output.table(rows, "The loss of each lesson", height=35 * 11 + 3)
    st.latex(r"p = \text{softmax}(z) \qquad \text{loss} = \text{mean of }(-\ln p_{\text{target}})")
    each, loss = np.asarray(costs.each, float)[counts], float(costs.mean)
    digits = enough(each, np.mean, loss)
    st.latex(rf"\text{{loss}} = \text{{mean}}\,{spelled(each, digits)} {equals(loss)}")
    prose.markdown(
        f"The mean is over the {len(each)} that count. PyTorch's `F.cross_entropy` with "
        f"`ignore_index={learning.IGNORED}` gives "
        f"**{float(learning.by_torch(logits[inputs], targets)):.4f}**. Knowing nothing costs "
        f"ln {len(learning.LETTERS)} = {np.log(len(learning.LETTERS)):.4f}."
    )
    code(learning.words, learning.cross_entropy, learning.by_torch)
    return logits, loss


def _lessons() -> list[str]:
    """Each letter of the two words with the one that follows, and the padding."""
    longest = max(map(len, learning.WORDS)) - 1
    lessons = []
    for word in learning.WORDS:
        lessons += [f"{a} → {b}" for a, b in pairwise(word)]
        lessons += ["padding"] * (longest + 1 - len(word))
    return lessons


def _step(book: Book, logits: Array) -> bool:
    """One step of gradient descent; whether the loss rose."""
    st.subheader("One step", anchor="step")
    prose.markdown(
        "How fast does the loss change as one logit of a lesson grows? By (p − 1) / n for the "
        "target, by p / n for every other letter: n is the number of lessons. These numbers are "
        "the **gradient**. A step moves each logit of the table against the sum of its rows, times "
        "the **learning rate**."
    )
    st.latex(r"\frac{\partial\,\text{loss}}{\partial z_i} = \frac{p_i - [i = \text{target}]}{n}")
    rate: float = st.segmented_control(
        "Learning rate", required=True, **address.choice(parameters.LEARN_RATE, _RATES)
    )
    lessons = learning.words()
    read, targets = lessons.inputs.flatten(), lessons.targets.flatten()
    uphill = learning.gradient(logits[read], targets)
    moved = np.asarray(learning.step(logits, lessons, rate))
    left, right = st.columns([4, 3], gap="large")
    names, letters = ("lesson", "next letter"), learning.LETTERS
    with left:
        panel = vectors("gradient at the logits", uphill, _lessons(), letters, names)
        picture(book, "learn_gradient", [panel], height=360)
    with right:
        panel = vectors("logits after the step", moved, letters, letters, ("after", "next letter"))
        picture(book, "learn_table", [panel], height=230)
        before, after = (
            float(learning.cross_entropy(letter_table[read], targets).mean)
            for letter_table in (logits, moved)
        )
        st.metric("Loss after the step", f"{after:.4f}", f"{after - before:+.4f}", "inverse")
    _every_rate(book, logits, before)
    prose.markdown(
        f"From {before:.4f} to **{after:.4f}**. The gradient tells only which way is down from "
        "here. A step that is too long goes past the lowest point, and a much longer one can end "
        "higher than it began."
    )
    code(learning.words, learning.gradient, learning.step, learning.cross_entropy)
    return after > before


def _every_rate(book: Book, logits: Array, before: float) -> None:
    """The loss after one step, long or short."""
    lessons = learning.words()
    read, targets = lessons.inputs.flatten(), lessons.targets.flatten()
    rates = np.geomspace(_RATES[0], _RATES[-1], 61)
    tables = [np.asarray(learning.step(logits, lessons, float(stepped))) for stepped in rates]
    losses = [float(learning.cross_entropy(stepped[read], targets).mean) for stepped in tables]
    drawn = curves_at(
        "Loss after one step, by learning rate",
        rates,
        {"after the step": losses, "before": np.full(len(rates), before)},
        "learning rate",
        "loss",
    )
    output.picture(replace(drawn, log=True, height=240), book.colors, key="rates", of_run=False)


def _four(book: Book) -> None:
    """Four small models, trained when asked."""
    st.subheader("Four small models", anchor="four")
    size = Setting()
    prose.markdown(
        "The table sees one letter. Give it more, one thing after the other. First **attention**, "
        f"so that it sees up to {size.T} letters; then **{size.nh} heads** in place of one. Last "
        "the whole block, with **residuals, norms and an MLP**, in "
        f"{pluralize(size.n_layer, 'layers')}."
        "\n\nAll four learn from the same passages of old books of Project Gutenberg, in small "
        "letters. Every tenth passage is held out, and on those the loss is measured."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        seed: int = st.selectbox("Seed", width=120, **address.choice(parameters.LEARN_SEED, SEEDS))
        job, requested = training(seed), f"_train_{seed}"
        if job.share < 1 and not st.session_state.get(requested):
            st.button(
                "Train the four models",
                icon=":material/play_arrow:",
                on_click=st.session_state.__setitem__,
                args=(requested, True),
                key="train",
            )
    if st.session_state.get(requested):
        job.go_on(book.view.model)
        jobs.bar([job], "Training", "Train the four models", "training")
    elif job.share < 1:
        return
    if any(len(learned.points) > 1 for learned in job.learned.values()):
        _losses(book, job)


def _losses(book: Book, job: Training) -> None:
    """The losses that a training has measured by now."""
    models = job.learned
    curves = {name: dict(model.points) for name, model in models.items()}
    drawn = losses_of_models("Held-out loss of four models, by training step", curves)
    output.picture(drawn, book.colors, key="learn_losses", of_run=False)
    done = {name: model for name, model in models.items() if model.written}
    last = [model.points[-1].loss for model in done.values()]
    output.table(
        {
            "model": list(done),
            "parameters": [model.n_parameters for model in done.values()],
            "loss": last,
            "as unsure as among": [f"{learning.perplexity(loss):.1f} letters" for loss in last],
            "it writes": [model.written for model in done.values()],
        },
        "Four models",
        column_config={
            "parameters": st.column_config.NumberColumn(format="localized"),
            "loss": st.column_config.NumberColumn(format="%.4f"),
        },
    )
    if len(done) == len(learning.PARTS):
        prose.markdown(_fell(done))
        code(
            learning.corpus,
            *_BUILT,
            learning.loss_of,
            learning.train,
            learning.held_out_loss,
            learning.write,
        )


#: What the models are made of.
_BUILT = (
    learning.Table,
    learning.Reader,
    CausalAttention,
    MultiHeadAttention,
    learning.blocks,
    learning.build,
)


def _fell(done: dict[str, Learned]) -> str:
    """The change of the loss by each addition."""
    names, losses = list(done), [model.points[-1].loss for model in done.values()]
    steps = zip(names[1:], losses, losses[1:], strict=False)
    changes = ", ".join(f"{name} {signed(after - before, '+.4f')}" for name, before, after in steps)
    held = all(after < before for before, after in pairwise(losses))
    return (
        f"Measured on this server, with this seed: {changes}."
        + (" **Each addition lowered the loss.** " if held else " Not each lowered the loss here. ")
        + "A head mixes what it sees into one vector; several can look at different letters at "
        "once. In the block, each letter's own vector stays, and each part adds to it."
    )


def _real(book: Book) -> None:
    """The model above, by the record of its training."""
    st.subheader("The real one", anchor="real")
    name = book.view.model.name
    try:
        record = run_cache.training(name)
    except CheckpointError as error:
        prose.markdown(literal(str(error)))
        return
    if record is None:
        prose.markdown(
            "The folder of the model above has no record of its training. Choose the bundled "
            "model, which has one."
        )
        return
    _curve(book, record, book.view.model.config.vocab_size)


def _curve(book: Book, record: TrainingRecord, n_vocab: int) -> None:
    output.picture(
        loss_curves("Loss of the model above, by tokens read", record),
        book.colors,
        key="learn_real",
        of_run=False,
    )
    first, last = (float(record.held_out[n]) for n in (0, -1))
    unsure, nothing = learning.perplexity(last), np.log(n_vocab)
    began = f"as unsure as among {learning.perplexity(first):,.0f} equally likely tokens"
    if first > nothing:
        began = f"worse than knowing nothing, which costs ln {n_vocab:,} = {nothing:.2f}"
    prose.markdown(
        "The model above learned by batches, a loss and steps too. Over "
        f"{record.tokens[-1] / 1e6:.1f} million tokens its held-out loss went from {first:.2f} to "
        f"**{last:.2f}** nats. At first that was {began}. In the end it was as unsure as among "
        f"{unsure:,.0f} equally likely tokens. Where the two curves for random tokens part, heads "
        "have learned to copy."
    )
    link(pages.TRAINING, "See its heads being born, on Training")
    code(learning.perplexity)


def _questions(loss: float, rose: bool, edited: bool) -> list[Question]:
    low = loss < _LOW
    return [
        Question(
            "learn_count",
            "Three texts of 7, 4 and 2 tokens make one batch. Over how many targets is the mean "
            "of the loss taken?",
            "What follows the last token of a text?",
            "6 + 3 + 1: each text has one target fewer than tokens. The batch has 18 places.",
            answer="10",
        ),
        Question(
            "learn_rise",
            "Find a learning rate at which one step makes the loss **rise**.",
            "When would a step go past the lowest point?",
            "The row after n is pulled toward a twice and toward s once. A long step follows the "
            "two and forgets the one, which then costs more than all that was won.",
            done=rose,
        ),
        Question(
            "learn_floor",
            f"Edit the logits so that the loss, before any step, is below **{_LOW}**.",
            "Which letters are always followed by the same one? And after n, what comes how often?",
            "No table gets below 0.2387: after n comes a twice and s once, and by the n alone "
            "nobody can tell which. Anyone who sees the letters before it can. That is what "
            "attention is for.",
            done=low,
            note=f"Now it is {loss:.4f}." if edited and not low else "",
        ),
    ]


#: The seeds that are offered: so many trainings, each kept for all visitors, are a server's most.
SEEDS = range(5)
#: Letters that each model writes in the end.
WRITTEN = 60

_TURN = Semaphore()


class Learned(NamedTuple):
    """A model's losses by now, its parameters, and what it wrote in the end."""

    points: tuple[Point, ...]
    n_parameters: int
    written: str = ""


@dataclass(eq=False)
class Training(Job):
    """Four models on their way, by name; those that come later aren't there yet."""

    seed: int
    size: Setting = field(default_factory=Setting)
    learned: Mapping[str, Learned] = field(default_factory=dict)

    def work(self, model: Model) -> None:
        """Wait until no other training goes on, then train one model after the other."""
        while not _TURN.acquire(timeout=0.5):
            self.tell(0.0)
        try:
            self._train()
        finally:
            _TURN.release()

    def _train(self) -> None:
        text, size, done = learning.corpus(), self.size, dict[str, Learned]()
        small = {
            name: learning.build(name, len(text.letters), size, self.seed)
            for name in learning.PARTS
        }
        counts = {name: sum(p.numel() for p in model.parameters()) for name, model in small.items()}
        before = 0
        for name, model in small.items():
            points: list[Point] = []
            with threads(size.B * size.T * counts[name]):
                for point in learning.train(model, text, size, self.seed):
                    points.append(point)
                    self.learned = done | {name: Learned(tuple(points), counts[name])}
                    # A step takes about as long as the model has parameters.
                    steps = before + counts[name] * point.step / size.steps
                    self.tell(steps / sum(counts.values()))
                written = learning.write(model, text.letters, size.T, WRITTEN, self.seed)
            done[name] = Learned(tuple(points), counts[name], written)
            before += counts[name]
        self.learned = done


@st.cache_resource(max_entries=len(SEEDS), show_spinner=False)
def training(seed: int) -> Training:
    """The training of that seed, one for all visitors."""
    return Training(seed)
