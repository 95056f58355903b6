"""Generate: write on token by token, and see where a head looks as each one is chosen."""

from gpt2viz.app.views import generate

generate.show()
