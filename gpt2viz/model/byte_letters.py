"""The letters in which ``vocab.json`` and ``merges.txt`` write bytes, so that each can be seen."""

from __future__ import annotations

from gpt2viz.errors import CheckpointError


def _byte_letters() -> dict[str, int]:
    """The letter that ``vocab.json`` writes for each byte: printable ones are themselves.

    The other 68 bytes are numbered from U+0100 on, in the order of their value.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in printable}
    hidden = (byte for byte in range(256) if byte not in printable)
    return letters | {chr(256 + n): byte for n, byte in enumerate(hidden)}


#: Letter -> byte.
BYTE_OF = _byte_letters()
_LETTER_OF = {byte: letter for letter, byte in BYTE_OF.items()}


def to_letters(token: bytes) -> str:
    """A token in these letters."""
    return "".join(map(_LETTER_OF.__getitem__, token))


def to_bytes(token: str, file: str) -> bytes:
    """The bytes of a token in these letters.

    Raises ``CheckpointError``, which names the ``file``, for another letter.
    """
    try:
        return bytes(BYTE_OF[letter] for letter in token)
    except KeyError as error:
        raise CheckpointError(
            f"{file}: {token!r:.60} has the letter {error.args[0]!r}, which stands for no byte"
        ) from None
