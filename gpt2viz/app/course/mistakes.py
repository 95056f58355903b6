"""Five common mistakes: each is made here, and its message shown."""

from __future__ import annotations

import inspect

import streamlit as st

from gpt2viz import GPT2Config
from gpt2viz.app import address, parameters, prose
from gpt2viz.app.course.parts import Book, heading
from gpt2viz.app.course.questions import Question
from gpt2viz.app.course.written import equals
from gpt2viz.textbook import mistakes


def draw(_book: Book) -> list[Question]:
    """E23."""
    prose.markdown(
        "Everyone makes these once. Each is really made here as you read, so these are the "
        "messages that you will meet. A good message says what was given, what was expected, and "
        "what to do; where PyTorch's own doesn't, this project checks first."
    )
    heading("E23")
    for n, mistake in enumerate(mistakes.MISTAKES):
        with st.container(border=True, key=f"mistake_{n}"):
            prose.markdown(f"**{n + 1}. {mistake.name}**")
            kind, message = mistakes.message(mistake.made)
            st.code(f"{kind}: {message}", language=None, wrap_lines=True)
            if mistake.caught is not None:
                kind, message = mistakes.message(mistake.caught)
                prose.caption("This project's own check, which comes first:")
                st.code(f"{kind}: {message}", language=None, wrap_lines=True)
            prose.markdown(f"**What to do.** {mistake.fix}")
            with st.expander("The code that fails", icon=":material/code:"):
                st.code(inspect.getsource(mistake.made))
    st.subheader("Try a configuration", anchor="try")
    columns = st.columns(2)
    widths, counts = [48, 64, 100, 768, 1000], [1, 3, 4, 7, 12, 25]
    C = columns[0].selectbox("n_embd", **address.choice(parameters.TRY_C, widths))
    nh = columns[1].selectbox("n_head", **address.choice(parameters.TRY_NH, counts))
    kind, message = mistakes.message(lambda: GPT2Config(n_embd=C, n_head=nh))
    st.latex(rf"h_s = C / n_h = {C} / {nh} {f'= {C // nh}' if C % nh == 0 else equals(C / nh)}")
    if kind:
        st.error(message, icon=":material/error:")
    else:
        st.success(f"Every head has {C // nh} channels.", icon=":material/check:")
    return [
        Question(
            "mistake_made",
            "Choose a width and a number of heads that the project refuses.",
            "Each head gets an equal share of the channels.",
            "The configuration is refused before any tensor is made: the earlier an error comes, "
            "the nearer it is to its cause.",
            done=bool(kind),
        ),
        Question(
            "mistake_25",
            "GPT-2 XL has 25 heads. Which of the widths here can 25 heads share, other than 100?",
            "An equal share must be a whole number.",
            "1000 = 25 · 40. GPT-2 XL has 1600 channels, 64 a head.",
            answer="1000",
            also=("thousand", "one thousand"),
        ),
    ]
