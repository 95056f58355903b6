"""An address of before: it leads on to the page that is there now."""

from gpt2viz.app.views import moved

moved.show(__file__)
