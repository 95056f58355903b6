"""What stays chosen as the sentence gets other tokens: the head on screen, and tokens still there.

Another sentence keeps the head, so that both can be compared, and of the tokens that were chosen
those up to which it is the same: at a place after that stands another word.
"""

from __future__ import annotations

from contextlib import suppress

from gpt2viz import EditError, GPT2VizError
from gpt2viz.app import address, output, pages, parameters, run_cache
from gpt2viz.app.frame import end_of_text
from gpt2viz.app.parameters import Parameter, To

#: Pages on which a head is large, whether or not somebody chose it. On Find it isn't.
_OF_A_HEAD = {*parameters.HEAD.on} - {pages.FIND, pages.TEXTBOOK}


def watch() -> None:
    """Carry along what is chosen, from now on and for every visitor."""
    address.when_changed(parameters.TEXT, _another_sentence)
    address.when_changed(parameters.END_OF_TEXT, _end_of_text)


def _another_sentence(before: str, after: str) -> None:
    same = _first_apart(_ids(before), _ids(after))
    _carry(lambda place: place if place < same else None, parameters.TEXT)


def _end_of_text(_before: bool, on: bool) -> None:
    by = 1 if on else -1
    _carry(lambda place: place + by if place + by >= 0 else None, parameters.END_OF_TEXT)


def _ids(text: str) -> list[int]:
    """The tokens of a text; none where it has none, or the page says that there is no model."""
    with suppress(GPT2VizError, KeyError):
        tokenizer = run_cache.load(address.chosen(parameters.MODEL)).tokenizer
        return list(tokenizer.encode(text, end_of_text_first=end_of_text.is_on()))
    return []


def _first_apart(before: list[int], after: list[int]) -> int:
    """The first place at which two texts have different tokens, or where one ends."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(before), len(after)))


def _carry(to: To, changed: Parameter) -> None:
    """Let what the address says be of the same head and, at their new places, of the same tokens.

    The head on screen may be one that nobody chose: the best for the sentence of before. What was
    chosen of a text alone is forgotten with that.
    """
    on_screen = pages.called(output.shown().page) in _OF_A_HEAD
    for one in (parameters.LAYER, parameters.HEAD):
        if on_screen and address.asked(one) is None and (head := address.known(one)) is not None:
            address.put(one, head)
    everything = address.parameters()
    for parameter in parameters.PARAMETERS:
        raw = address.asked(parameter)
        of_text = changed is parameters.TEXT and changed in parameter.of
        if raw and parameter.moves and not of_text:
            with suppress(ValueError, EditError):  # the page that reads it says so
                address.respell(parameter, parameter.moves(raw, to, everything))
