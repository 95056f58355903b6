"""Models: what can be loaded, how to get another one, and what one is made of."""

from gpt2viz.ui import frame
from gpt2viz.ui.models import contents

colors = frame.open_menu("Models")
contents.show(contents.choose_section(), colors)
