"""The chapters in a reader's order, and the way between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import streamlit as st

from gpt2viz.app import address, parameters, prose
from gpt2viz.app.components.book import land
from gpt2viz.app.course import (
    after_gpt2,
    build,
    by_hand,
    crane,
    heads,
    learning,
    mask,
    mistakes,
    mlp,
    next_word,
    printed,
    progress,
    questions,
    real_step,
    residual,
    rnn,
    story,
    tokens,
    whole,
    why,
)
from gpt2viz.app.course.parts import Book
from gpt2viz.app.frame import page
from gpt2viz.app.frame.sentence import LIGHT_UP
from gpt2viz.app.parameters import Switch
from gpt2viz.pictures.palette import Palette
from gpt2viz.textbook import guesses
from gpt2viz.textbook.examples import EXAMPLES


class Chapter(NamedTuple):
    """``draw`` draws it and yields each of its ``questions`` where that belongs, or at the end.

    These and ``examples`` are ids, ``predicted`` that of a row of weights. ``part`` is what the
    contents say below the title.
    """

    title: str
    draw: Callable[[Book], Iterable[questions.Question]]
    examples: tuple[str, ...]
    questions: tuple[str, ...]
    reads_sentence: bool = False
    choosing: str = ""  # what it does to choose a token of the sentence
    part: str = ""
    predicted: str = ""


_AFTER = "After GPT-2"
#: The chapter that has every example once more, with what the texts print.
APPENDIX = "printed"

CHAPTERS: Mapping[str, Chapter] = {
    "tokens": Chapter(
        "Tokens and vectors",
        tokens.draw_tokens,
        ("E2",),
        ("tokens_shape", "tokens_twice"),
        reads_sentence=True,
        choosing=real_step.CHOOSING,
    ),
    "order": Chapter(
        "Order",
        tokens.draw_order,
        ("E3",),
        ("order_on", "order_equal", "order_shape"),
        reads_sentence=True,
        choosing=real_step.CHOOSING,
    ),
    "crane": Chapter(
        "What attention is for",
        crane.draw,
        ("E4",),
        ("crane_half", "crane_machine"),
        reads_sentence=True,
        choosing=real_step.CHOOSING,
        predicted="crane",
    ),
    "by-hand": Chapter(
        "Attention by hand",
        by_hand.draw,
        ("E19", "E5", "E6", "E22"),
        ("journey_self", "journey_same", "hand_value", "scale_one"),
        reads_sentence=True,
        choosing=real_step.CHOOSING,
        predicted="scale",
    ),
    "mask": Chapter(
        "The causal mask",
        mask.draw,
        ("E7",),
        ("mask_row", "mask_after", "mask_first", "mask_even"),
        reads_sentence=True,
        choosing=real_step.CHOOSING,
        predicted="mask",
    ),
    "heads": Chapter(
        "Many heads",
        heads.draw,
        ("E21", "E8", "E20", "E24"),
        ("way_scores", "way_fails", "variants_last", "real_self"),
        reads_sentence=True,
        choosing=LIGHT_UP,
    ),
    "mlp": Chapter(
        "MLP and activations",
        mlp.draw,
        ("E9", "E10", "E15", "E13"),
        ("linear_zero", "curve_lowest", "drop_factor", "drop_reading"),
        reads_sentence=True,
        choosing=real_step.CHOOSING,
    ),
    "residual": Chapter(
        "Residual stream and norms",
        residual.draw,
        ("E11", "E12", "E17"),
        ("stream_erase", "norm_flat", "norm_scale", "depth_ten"),
        reads_sentence=True,
        choosing=real_step.CHOOSING,
    ),
    "whole": Chapter(
        "The whole model",
        whole.draw,
        ("E26", "E25", "E1", "E16", "E18"),
        ("whole_half", "whole_untied", "whole_heads"),
        reads_sentence=True,
    ),
    "next-word": Chapter(
        "From logits to the next word",
        next_word.draw,
        ("E14",),
        ("next_steel", "next_even", "next_loss"),
        reads_sentence=True,
        choosing=real_step.CHOOSING,
        predicted="next",
    ),
    "learning": Chapter(
        "How it learns",
        learning.draw,
        (),
        ("learn_count", "learn_rise", "learn_floor"),
        reads_sentence=True,
    ),
    "why": Chapter(
        "Why does it look there?",
        why.draw,
        (),
        ("why_pairs", "why_shared", "why_own"),
        reads_sentence=True,
    ),
    "build": Chapter(
        "Build it yourself",
        build.draw,
        (),
        ("build_attention", "build_all", "build_broken"),
        reads_sentence=True,
    ),
    "kv-cache": Chapter("KV cache", after_gpt2.draw_kv_cache, (), ("cache_tenth",), part=_AFTER),
    "rmsnorm": Chapter("RMSNorm", after_gpt2.draw_rmsnorm, (), ("rms_same",), part=_AFTER),
    "swiglu": Chapter("SwiGLU", after_gpt2.draw_swiglu, (), ("gate_shut",), part=_AFTER),
    "rope": Chapter("RoPE", after_gpt2.draw_rope, (), ("rope_moved",), part=_AFTER),
    "grouped": Chapter(
        "Grouped-query attention", after_gpt2.draw_grouped, (), ("groups_factor",), part=_AFTER
    ),
    "flash": Chapter("Flash attention", after_gpt2.draw_flash, (), ("flash_bytes",), part=_AFTER),
    "sinks": Chapter(
        "Sinks", after_gpt2.draw_sinks, (), ("sink_rest",), reads_sentence=True, part=_AFTER
    ),
    "rnn": Chapter("RNNs", rnn.draw, (), ("rnn_between",), part="Before GPT-2"),
    "mistakes": Chapter("Common mistakes", mistakes.draw, ("E23",), ("mistake_made", "mistake_25")),
    APPENDIX: Chapter("Printed and computed", printed.draw, tuple(EXAMPLES), (), part="Appendix"),
}

#: The chapter that explains a switch of the sentence's row; those before do without it.
_EXPLAINED_IN: Mapping[Switch, str] = {
    parameters.CAUSAL: "mask",
    parameters.END_OF_TEXT: "sinks",
}


def choose() -> str:
    """Pick a chapter; ``?example=E5`` in the address opens the one that shows it."""
    address.choice(parameters.EXAMPLE, list(EXAMPLES))
    example: str | None = address.get(parameters.EXAMPLE)
    holding = next((name for name, c in CHAPTERS.items() if example in c.examples), None)
    if holding and address.raw(parameters.CHAPTER) is None:
        address.set_raw(parameters.CHAPTER, holding)
    names, done = list(CHAPTERS), progress.answered()

    def written(name: str) -> str:
        chapter = CHAPTERS[name]
        n = len(chapter.questions)
        tick = " ✓" if n and len(done.get(name, ())) == n else ""
        return f"{names.index(name) + 1}. {chapter.title}{tick}"

    chosen: str = st.radio(
        "Chapters",
        names,
        format_func=written,
        captions=[chapter.part for chapter in CHAPTERS.values()],
        **address.choice(parameters.CHAPTER, names, names[0]),
    )
    progress.bar({name: chapter.questions for name, chapter in CHAPTERS.items()}, _summary())
    if example and example not in CHAPTERS[chosen].examples:  # the reader has gone on
        example = None
        address.put(parameters.EXAMPLE, None)
    land(chosen, example or "")
    return chosen


def _summary() -> str:
    """A list of the chapters that were begun, with the progress in each."""
    answered, lines = progress.answered(), []
    for name, chapter in CHAPTERS.items():
        count, given = len(answered.get(name, ())), progress.guesses().get(chapter.predicted)
        parts = [f"{count} of {len(chapter.questions)} answered"] if count or given else []
        if given:
            off = guesses.judge(guesses.ROWS[chapter.predicted], given).off
            parts.append(f"prediction off by {off:.2f}")
        lines += [f"- {chapter.title}: {', '.join(parts)}"] if parts else []
    return "\n".join(lines)


def show(name: str, colors: Palette) -> None:
    """Draw a chapter, its questions, and the way to the next."""
    chapter = CHAPTERS[name]
    names = list(CHAPTERS)
    position = names.index(name)
    st.header(chapter.title, anchor=name)
    view = None
    if chapter.reads_sentence:
        known = [
            switch for switch, lesson in _EXPLAINED_IN.items() if names.index(lesson) <= position
        ]
        view = page.read_sentence(colors, chapter.choosing, known)
    book = Book(colors, view)
    questions.ask(name, chapter.draw(book))
    if name in story.CHAPTERS:
        story.tell(name, book)
    prose.caption(
        "≈ marks a rounded number; in pictures and tables of results all numbers are rounded. "
        "Calculations use all the digits."
    )
    if chapter.examples and name != APPENDIX:
        _to_appendix(chapter.examples)
    if position + 1 < len(names):
        following = names[position + 1]
        st.button(
            f"Next: {CHAPTERS[following].title}",
            icon=":material/arrow_forward:",
            type="primary",
            on_click=address.put,
            args=(parameters.CHAPTER, following),
        )


def _to_appendix(examples: tuple[str, ...]) -> None:
    """A line that leads to what the texts print of a chapter's examples."""
    st.button(
        f"Printed and computed: {', '.join(examples)}",
        icon=":material/fact_check:",
        type="tertiary",
        on_click=_open_appendix,
        args=(examples[0],),
    )


def _open_appendix(example: str) -> None:
    address.put(parameters.CHAPTER, APPENDIX)
    address.put(parameters.EXAMPLE, example)
