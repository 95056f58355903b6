"""Models: what can be loaded, how to get another one, and what one is made of."""

from gpt2viz.app.views import models

models.show()
