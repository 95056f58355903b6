"""The Models page: what can be loaded, and one model's parts."""

from gpt2viz.app.views.models.contents import show

__all__ = ["show"]
