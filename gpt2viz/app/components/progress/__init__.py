"""Keeps a reader's answers and guesses in the browser; ``course/progress.py`` says which."""

from __future__ import annotations

from gpt2viz.app.components import component

keep = component(__name__)
