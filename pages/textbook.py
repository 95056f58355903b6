"""Textbook: the worked examples of five introductions to GPT-2, alive."""

from gpt2viz.app.views import textbook

textbook.show()
