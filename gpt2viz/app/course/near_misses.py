"""Wrong answers that would be right for something else, and what that is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gpt2viz.textbook import attention

#: Question -> wrong answers (several with " | " between) -> what they would be right for.
_NEAR: Mapping[str, Mapping[str, str]] = {
    "tokens_shape": {
        "(2, 4)": "That is the shape of the ids, before each of them becomes a row.",
        "(4, 3)": "That is what one text becomes. There are two.",
        "(8, 3)": "Eight rows are looked up, but texts and tokens remain separate axes.",
        "(2, 3, 4)": "That is each text transposed: a column for each token.",
    },
    "order_shape": {
        "(5, 3)": "That is what is added to each text.",
        "(2, 5, 6)": "That would be the two side by side. Adding makes no more channels.",
        "(2, 10, 3)": "That would be one after the other. Adding makes no more tokens.",
        "(4, 5, 3)": "Texts are not added up: each gets the same position vectors.",
        "(2, 3, 5)": "That is each text transposed: a column for each token.",
    },
    "way_scores": {
        "(2, 16, 100, 64)": "That is Q, K or V, and the output of each head: 1024 / 16 = 64.",
        "(2, 16, 64, 100)": "That is K transposed, ready to be multiplied by Q.",
        "(2, 100, 16, 64)": "That is Q, K or V before the heads come to the front.",
        "(2, 16, 64, 64)": "That is QᵀK, channels against channels. Scores are QKᵀ.",
        "(2, 100, 1024)": "That is x, going in and coming out.",
        "(2, 100, 100)": "That would be a single head.",
        "(16, 100, 100)": "That is one text. There are two.",
    },
    "mask_row": {
        "3": "That is the first row alone.",
        "4": "That is the diagonal: each token may see itself.",
        "10": "That is how many may be more than 0: the diagonal and below.",
        "12": "That is all but the diagonal. Earlier keys are not masked.",
        "16": "That is all of them.",
    },
    "mask_after": {
        "1": "That is with the mask before softmax, where those that stay share the whole.",
        "0.4746": "That is what the mask takes away.",
        "0.3688": "That is what “crane” gives itself. It sees one more word.",
        "0.1566": "That is what it gives “A”. It also sees itself.",
        "0.2197": "That is the row of “A”.",
        "0.7429": "That is the row of “ate”.",
    },
    "drop_factor": {
        "0.5": "That is the chance to survive. The factor undoes it.",
        "1": "Then the mean would be halved.",
        "1.5": "That is 1 + p.",
    },
    "norm_scale": {
        "10": "It would be, if only the mean were subtracted. What is it divided by?",
        "0.1": "It would be, if σ alone had grown. x − μ grows too.",
        "100": "That is the variance. The standard deviation is its square root.",
    },
    "whole_untied": {
        "77.2 | 77.19 | 77194752": "That is both tables. One of them is there already.",
        "124.4 | 124.44 | 124439808": "That is all of GPT-2 small, tied.",
        "163 | 163.04 | 163037184": "That is all of GPT-2 small, untied. By how much has it grown?",
        "31 | 31.02": "That is its growth in per cent.",
        "0.8 | 0.79 | 786432": "That is the position table: 1,024 · 768.",
    },
    "why_pairs": {
        "11": "That is how many parts there are. Each meets every one of the other side.",
        "16": "That is the query's parts with themselves.",
        "49": "That is the key's parts with themselves.",
        "14": "That would be the pairs of two query parts. There are four.",
    },
    "why_shared": {
        "5": "That is how much each score grows. What does softmax make of it?",
        "148 | 148.4": "That is e⁵: each numerator grows so many times. So does their sum.",
        "1": "That is what the weights sum to, before and after.",
    },
    "whole_heads": {
        "12": "That is GPT-2 small.",
        "16": "That is GPT-2 medium.",
        "25": "That is GPT-2 XL.",
        "36": "That is how many layers it has.",
        "64": "That is how many channels each head has.",
    },
    "next_loss": {
        "0.25": "That is the probability. The loss is −ln of it.",
        "0.602": "That is the logarithm to base 10. Nats take ln.",
        "2": "That is in bits: log₂ 4. In nats the number is smaller.",
        "4": "That is how many words there are.",
    },
    "learn_count": {
        "6": "That is the longest text alone.",
        "12": "That would be one text of 13 tokens. These are three.",
        "13": "Those are all tokens. What comes after the last one of a text?",
        "18": "Those are all places of the batch, padding too.",
        "21": "That is three times the longest text. Padding doesn't count.",
    },
    "cache_tenth": {
        "520": "That is without a cache, which reads all ten words again.",
        "28": "That is the fourth word.",
        "40": "That is its scores and its mixture. It has a query, a key and a value too.",
        "48": "It sees itself too: ten words, not nine.",
        "12": "That is its own query, key and value. It also looks at ten words.",
    },
    "rope_moved": {
        "9": "That is where it stood: 31 tokens before the query now.",
        "3": "That is how far the key was from the query.",
        "28": "That is how far the query has moved.",
        "31": "That is how far they would be apart if the key stayed.",
        "43": "That comes later than the query.",
    },
    "groups_factor": {
        "8": "That is how many groups there are.",
        "32": "That is how many query heads there are. One group alone would make it 32.",
        "24": "That is how many heads of keys are saved.",
        "16": "Keys and values both shrink, but they are added, not multiplied.",
        "0.25": "That is the part that is left.",
    },
    "flash_bytes": {
        "64": "That is how many keys a tile has.",
        "256": "That would be with tiles of 4 keys.",
        "1024": "That would be with tiles of a single key.",
        "65536": "That is how many scores of a head are in one tile: 1024 · 64.",
    },
    "rnn_between": {
        "100": "The first state is there after the first word, and waits for the second.",
        "98": "The last word's step counts as well.",
        "1": "That is one step. There are more words between.",
        "10000": "That is how many scores attention has for this text.",
    },
    "mistake_25": {
        "40": "That is how many channels each head would have.",
        "48 | 64 | 768": "Divided by 25, that is not a whole number.",
        "100": "That works too, but the question asks for another.",
        "1600": "That is GPT-2 XL's own width. It isn't among those here.",
    },
}


def near_misses(question: str) -> Mapping[str, str]:
    """What each known wrong answer to a question would be right for; {} where none is known."""
    if question == "journey_self":
        return _weights()
    return _seen() if question == "variants_last" else _NEAR.get(question, {})


@cache
def _weights() -> Mapping[str, str]:
    """How much "starts" gives to each word but the right one."""
    row = attention.journey_steps().weights[attention.JOURNEY.index("starts")]
    found = {
        word: f"“starts” gives it {float(weight):.4f}. Another word gets more."
        for word, weight in zip(attention.JOURNEY, row, strict=True)
    }
    del found[attention.JOURNEY[int(row.argmax())]]
    return found


@cache
def _seen() -> Mapping[str, str]:
    """How many words each but the last may see with the mask on."""
    n = len(attention.JOURNEY)
    return {
        word: f"With the mask it sees {place} of the {n} words, without it all {n}."
        for place, word in enumerate(attention.JOURNEY[:-1], start=1)
    }
