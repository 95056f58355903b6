"""The command ``gpt2viz``: the app, and its results without it."""

from __future__ import annotations

import click

from gpt2viz import __version__
from gpt2viz.cli.group import Group

#: Command -> its help. Each is in the module of its name, or of ``MODULES``, loaded on use.
COMMANDS = {
    "app": "Open the app; Ctrl-C ends it.",
    "serve": "Serve the app to many visitors by several processes; Ctrl-C ends it.",
    "trace": "Run the model on TEXT and show one tensor.",
    "why": "Explain why a head looks at a token of TEXT.",
    "surprise": "Show how unexpected each token of TEXT was, in bits.",
    "lens": "Show the next token as the model would predict it after each step.",
    "contributions": "Show what each component added to the logit of a next token.",
    "route": "Show how much each token of TEXT added to a next token's logit, by which head.",
    "fewest": "Find the fewest heads that still tell two texts apart.",
    "generate": "Continue TEXT, token by token.",
    "shapes": "List every tensor of the run on TEXT.",
    "heads": "Score every head on every passage of a corpus.",
    "changes": "Find the heads that do something else in AFTER than in BEFORE.",
    "models": "List the models: bundled, configured, and in the Hugging Face cache.",
    "fetch": "Fetch the model NAME from the Hugging Face hub, after saying its size.",
    "page": "Write one HTML file that runs the model in any browser, without a server.",
    "convert": "Turn a FILE of nanoGPT or minGPT into a checkpoint FOLDER.",
}

#: Commands that share a module.
MODULES = dict.fromkeys(("surprise", "lens", "contributions", "route", "generate"), "predictions")
MODULES |= {"app": "serve", "changes": "heads"} | dict.fromkeys(
    ("fetch", "page", "convert"), "models"
)


@click.group(
    cls=Group,
    helps=COMMANDS,
    modules=MODULES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="gpt2viz %(version)s")
def main() -> None:
    """See how a GPT-2 reads a sentence.

    \b
        gpt2viz app                                     open the app
        gpt2viz trace "A crane ate fish"                the weights of head 0.0
        gpt2viz trace "A crane ate fish" --out x.html   the same as a page
        gpt2viz shapes "A crane ate fish"               every tensor of the run

    Exit codes: 0 done; 1 the input can't be used; 2 the command was used
    wrongly; 130 stopped. Results go to stdout, progress and errors to stderr.
    """
