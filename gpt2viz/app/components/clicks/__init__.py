"""Listens to the charts of a container. What is then sent to whom is said in ``app/clicks.py``."""

from __future__ import annotations

from gpt2viz.app.components import component

listen = component(__name__)
