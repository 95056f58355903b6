"""``python -m gpt2viz``: the same as the command ``gpt2viz``."""

from gpt2viz.cli import main

if __name__ == "__main__":
    main(prog_name="gpt2viz")
