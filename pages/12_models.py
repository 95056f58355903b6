"""Models: what can be loaded, how to get another one, and what one is made of."""

from gpt2viz.app.frame import page
from gpt2viz.app.views.models import contents

colors = page.open_menu("Models")
contents.show(contents.choose_section(), colors)
