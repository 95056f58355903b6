"""The printable letters with which a vocabulary writes the bytes of its tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gpt2viz.errors import CheckpointError

Values = Mapping[str, Any]

# A byte by its number, as SentencePiece names it.
_BYTE = re.compile("<0x([0-9A-F]{2})>")


def _byte_letters() -> dict[str, int]:
    """Letter in ``vocab.json`` -> the byte it stands for; printable bytes are their own letters.

    The other 68 bytes are numbered from U+0100 on, in the order of their value.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in printable}
    hidden = (byte for byte in range(256) if byte not in printable)
    return letters | {chr(256 + n): byte for n, byte in enumerate(hidden)}


#: Letter -> byte.
BYTE_OF = _byte_letters()


@dataclass(frozen=True)
class Letters:
    """The letters of a vocabulary: for bytes, as GPT-2's, or characters, as SentencePiece's.

    One of them stands for a ``space``. With ``byte_fallback``, characters without a token are
    spelled in bytes, each a token named after its number.
    """

    space: str
    byte_level: bool = False
    byte_fallback: bool = False

    def is_letter(self, token: str) -> bool:
        """True if a token is one letter, or a byte by its number, which needs no merge."""
        alone = token in BYTE_OF if self.byte_level else len(token) == 1
        return alone or (self.byte_fallback and _BYTE.fullmatch(token) is not None)

    def to_text(self, text: str) -> str:
        """Turn a normalized text back into readable text, with spaces."""
        return text if self.byte_level else text.replace(self.space, " ")

    def to_bytes(self, token: str) -> bytes:
        """The bytes of a token."""
        if self.byte_level:
            with suppress(KeyError):  # no text yields a token with other letters
                return bytes(map(BYTE_OF.__getitem__, token))
        if self.byte_fallback and (byte := _BYTE.fullmatch(token)):
            return bytes.fromhex(byte[1])
        return self.to_text(token).encode()


def decode_tokens(tokens: Sequence[Any]) -> Sequence[Any]:
    """Decode tokens as a vocabulary writes them, Ġcat, Ã¼, ▁cat, to bytes; others are unchanged."""
    if not all(isinstance(token, str) for token in tokens):
        return tokens
    text, words = "".join(tokens), any(token.startswith("▁") for token in tokens)
    of_bytes = any(token.startswith(("Ġ", "Ċ")) for token in tokens)
    with suppress(KeyError, UnicodeDecodeError):
        of_bytes |= not text.isascii() and bool(bytes(map(BYTE_OF.__getitem__, text)).decode())
    if not (words or of_bytes):
        return tokens
    letters = Letters("Ġ", byte_level=True), Letters("▁" if words else "\0", byte_fallback=words)
    return [
        letters[not (of_bytes and BYTE_OF.keys() >= set(token))].to_bytes(token) for token in tokens
    ]


def letters_of(steps: Iterable[Values], model: Values, file: str) -> Letters:
    """The letters that a tokenizer's steps write.

    Raises ``CheckpointError``, which names the ``file``, if they don't determine the bytes.
    """
    byte_fallback = bool(model.get("byte_fallback"))
    # The normalizer of this name has no other field.
    if any(step["type"] == "ByteLevel" and len(step) > 1 for step in steps):
        return Letters("Ġ", byte_level=True, byte_fallback=byte_fallback)
    spaces = [
        step.get("replacement") or step["content"]
        for step in steps
        if step["type"] == "Metaspace"
        or (step["type"] == "Replace" and step["pattern"] == {"String": " "})
    ]
    if not spaces or len(spaces[0]) != 1:
        raise CheckpointError(
            f"{file}: only byte-level BPE can be read, and SentencePiece's, with a sign for a space"
        )
    return Letters(spaces[0], byte_fallback=byte_fallback)
