"""Find: a head by what it does, by where it looks, or by a pattern that you draw."""

from gpt2viz.app.views import find

find.show()
