"""Side by side: layers, the mask on and off, sentences, heads or models, on one scale."""

from gpt2viz.app.views import side_by_side

side_by_side.show()
