"""Text to token ids and back, by a checkpoint's own byte-pair encoding.

GPT-2's tokenizer (Sennrich et al. 2016, on bytes as in Radford et al. 2019) cuts a text with a
regular expression and merges the bytes of each piece, the most frequent pair of the training
text first. ``tiktoken`` does the work; this module reads the checkpoint's files for it. Merges that
contradict each other are followed by ``gpt2viz.model.bpe``, as tiktoken would give other ids.
A model that was trained on characters, or on a few words, has no merges: its vocabulary is a plain
list, ``tokens.json``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tiktoken

from gpt2viz.errors import CheckpointError, TextError
from gpt2viz.files import is_there, read_json, read_list, read_text
from gpt2viz.model.bpe import contradicts, merged, ranked
from gpt2viz.model.byte_letters import BYTE_OF, to_bytes
from gpt2viz.model.config import END_OF_TEXT
from gpt2viz.model.pieces import PIECES, pieces, within_reach
from gpt2viz.model.vocabulary import (
    check_bytes,
    check_ids,
    check_list,
    check_made,
    pairs_of,
    short,
)

# Half a surrogate pair in a special token's name has bytes too.
_SURROGATES = "surrogatepass"

# Letters of all added tokens. They become one regular expression, which takes its time.
_MOST_ADDED = 200_000

# Tokens that a message names.
_NAMED = 12

# Options of a tokenizer.json that give other ids than GPT-2's way does …
_REFUSED = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
# … and of a token that was added later: it would have to be looked for in another way.
_GREEDY = ("lstrip", "rstrip", "single_word")


class Tokenizer:
    """Encode and decode text with the vocabulary of one checkpoint."""

    #: Whether tokens are words that white space only separates: then it is in none of them.
    apart = False

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        added: Collection[str] = (),
        special: Collection[str] = (END_OF_TEXT.decode(),),
        greedy: Collection[str] = (),
        files: tuple[str, str] = ("vocabulary", "merges"),
    ) -> None:
        """``vocab`` maps a token, in the letters of ``vocab.json``, to its id; ``merges`` are
        the pairs in the order of their rank. Of the entries that no merge makes, ``added`` are
        those that a text has as it is written, such as a new word, and ``special`` those that are
        found in a text only when asked for; ``greedy`` are special ones that would take the space
        around them along, which can't be done. ``files`` are named where vocabulary or merges are
        refused, with a ``CheckpointError``."""
        words, pairs = files
        check_ids(vocab, words)
        made = {left + right for left, right in merges}
        check_made(vocab, made, {*added, *special}, files)
        ordinary = {token for token in vocab if token in made or token in BYTE_OF}
        self._bytes = {
            i: to_bytes(token, words) if token in ordinary else token.encode(errors=_SURROGATES)
            for token, i in vocab.items()
        }
        end = END_OF_TEXT.decode()
        #: The id of ``<|endoftext|>``, or None for a vocabulary without this special token.
        self.end_of_text = None if end in ordinary else vocab.get(end)
        id_of = {self._bytes[vocab[token]]: vocab[token] for token in ordinary}
        check_bytes(id_of, words)
        #: The rank of every merge: its place in the list, from 0.
        self.merges = ranked(merges, id_of, pairs)
        ranks = {bytes([byte]): byte for byte in range(256)}
        for left, right in sorted(self.merges, key=self.merges.__getitem__):
            ranks.setdefault(left + right, len(ranks))
        if sum(map(len, (*added, *special))) > _MOST_ADDED:
            raise CheckpointError(
                f"{words}: the added tokens have more than {_MOST_ADDED:,} letters together"
            )
        self._added = {token: vocab[token] for token in added if token}
        self._special = {t: vocab[t] for t in special if t and t in vocab and t not in added}
        self._greedy = frozenset(greedy)
        self._cut, self._cut_special = _finder(self._added), _finder(self._special)
        self._ids = [id_of[part] for part in ranks]
        self._encoding = tiktoken.Encoding(
            "checkpoint", pat_str=PIECES, mergeable_ranks=ranks, special_tokens={}
        )
        self._by_pairs = id_of if contradicts(self.merges) else None

    @property
    def n_vocab(self) -> int:
        """One more than the highest id, special tokens included."""
        return max(self._bytes) + 1

    def cuts_like(self, other: Tokenizer) -> bool:
        """Whether both cut every text into the same tokens, with the same ids.

        Special tokens that no text is cut into may be missing from one of them.
        """
        both = self._bytes.keys() & other._bytes.keys()
        mine, theirs = ((t._ids, t._added, t.merges) for t in (self, other))
        return mine == theirs and all(self._bytes[n] == other._bytes[n] for n in both)

    def special_in(self, text: str) -> list[str]:
        """The special tokens whose names stand in a text, such as ``<|endoftext|>``."""
        return list(dict.fromkeys(self._cut_special.findall(text)))

    def encode(
        self, text: str, *, end_of_text_first: bool = False, special: bool = False
    ) -> list[int]:
        """Token ids of a text.

        A special token that is typed is ordinary text, not that token; ``special=True`` reads it
        as the token, as Hugging Face's tokenizers do.
        ``end_of_text_first`` puts the special token ``<|endoftext|>`` before the text, as it
        stands between texts in GPT-2's training.

        Raises ``TextError`` for half a surrogate pair, which stands for no character, where the
        vocabulary has no ``<|endoftext|>`` to put first, for a special token that would take
        the space around it along, and for what a vocabulary that is a plain list can't spell.
        """
        if end_of_text_first and self.end_of_text is None:
            raise TextError("This model has no token <|endoftext|> to put first.")
        for place, char in enumerate(text):
            if "\ud800" <= char <= "\udfff":
                raise TextError(
                    f"Character {place + 1} of the text (U+{ord(char):04X}) is half of a surrogate "
                    "pair and stands for no character. Delete it and try again."
                )
        ids: list[int] = []
        for outer in self._cut_special.split(text) if special else [text]:
            if special and outer in self._special:
                ids.append(self._readable(outer))
                continue
            ids += self._ordinary(outer)
        first = self.end_of_text if end_of_text_first else None
        return ids if first is None else [first, *ids]

    def _ordinary(self, text: str) -> Iterator[int]:
        """The ids of a text in which special tokens are text like any other."""
        for part in self._cut.split(text):
            if part in self._added:
                yield self._added[part]
            elif self._by_pairs is not None:
                words = (word.encode() for word in pieces(part))
                yield from (self._by_pairs[t] for word in words for t in merged(word, self.merges))
            else:
                for reach in within_reach(part):
                    yield from (self._ids[rank] for rank in self._encoding.encode_ordinary(reach))

    def _readable(self, token: str) -> int:
        if token in self._greedy:
            raise TextError(
                f"{token} takes the space around it along or stands only for whole words, and "
                "can't be read as a token here."
            )
        return self._special[token]

    def cut(self, text: str) -> Iterator[tuple[bytes, bool]]:
        """The parts of a text that are merged by themselves, and whether each is an added token."""
        for part in self._cut.split(text):
            if part in self._added:
                yield part.encode(), True
            else:
                yield from ((word.encode(), False) for word in pieces(part))

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one token: often a word with the space before it, sometimes only part
        of a character. Empty for an id that the vocabulary leaves unused."""
        return self._bytes.get(token_id, b"")

    def decode(self, token_ids: Iterable[int]) -> str:
        """The text of a sequence of ids; bytes that form no character become U+FFFD."""
        return b"".join(map(self.token_bytes, several(token_ids))).decode("utf-8", errors="replace")


class TokenList(Tokenizer):
    """A vocabulary that is a plain list: one string an id, characters or words.

    At each place of a text the longest token that stands there is taken. White space that is in no
    token only separates them; words are put together again with a space between.
    """

    def __init__(self, tokens: Sequence[str], file: str = "tokens.json") -> None:
        """``tokens`` are in the order of their ids; ``file`` is named where they are refused,
        with a ``CheckpointError``: empty ones, and one that stands there twice."""
        check_list(tokens, file)
        end, given = END_OF_TEXT.decode(), {token: i for i, token in enumerate(tokens)}
        self._bytes = {i: token.encode() for token, i in given.items()}
        self.end_of_text = given.get(end)
        self._special = {end: given[end]} if end in given else {}
        self._added = {token: i for token, i in given.items() if token not in self._special}
        self._longest = max(map(len, self._added), default=0)
        self._separated = not any(map(_has_space, self._added))
        self.apart = self._separated and self._longest > 1
        self.merges, self._ids, self._greedy = {}, [], frozenset()
        self._cut_special = _finder(self._special)

    def cut(self, text: str) -> Iterator[tuple[bytes, bool]]:
        """Each token of a text by itself: nothing is merged."""
        return ((self._bytes[i], True) for i in self._ordinary(text))

    def decode(self, token_ids: Iterable[int]) -> str:
        """The text of a sequence of ids, with a space between words."""
        between = b" " if self.apart else b""
        return between.join(map(self.token_bytes, several(token_ids))).decode()

    def _ordinary(self, text: str) -> Iterator[int]:
        whole = text.split() if self._separated else [text]
        found = [(part, token) for part in whole for token in self._tokens(part)]
        unknown = (
            part if self.apart else token for part, token in found if token not in self._added
        )
        if names := [short(name) for name in dict.fromkeys(unknown)]:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            sort = "words" if self.apart else "characters"
            raise TextError(
                f"The vocabulary of this model is a list of {len(self._bytes):,} tokens, in which "
                f"these {sort} are missing: {', '.join(names[:_NAMED])}{more}. It has "
                f"{', '.join(map(short, list(self._added)[:_NAMED]))}"
                f"{' and others' if len(self._added) > _NAMED else ''}."
            )
        yield from (self._added[token] for _, token in found)

    def _tokens(self, text: str) -> Iterator[str]:
        """The longest token at each place, or a character that begins none."""
        place = 0
        while place < len(text):
            ends = range(min(len(text), place + self._longest), place, -1)
            token = next((t for end in ends if (t := text[place:end]) in self._added), text[place])
            yield token
            place += len(token)


def several(token_ids: Iterable[int]) -> Iterable[int]:
    """The ids themselves. Raises ``TextError`` for what are none, such as a single id."""
    if isinstance(token_ids, str) or not isinstance(token_ids, Iterable):
        raise TextError(f"decode takes a list of token ids, such as [5], not {token_ids!r:.60}")
    return token_ids


def _has_space(token: str) -> bool:
    return any(map(str.isspace, token))


def _finder(tokens: Iterable[str]) -> re.Pattern[str]:
    """Finds any of some tokens in a text, the longest first where several begin."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read ``tokenizer.json``, or ``vocab.json``, ``merges.txt`` and ``added_tokens.json``, or else
    a plain list, ``tokens.json``.

    Raises ``CheckpointError`` naming the file where one is missing or is neither byte-level BPE nor
    a list.
    """
    if is_there(folder / "tokenizer.json"):
        return _from_tokenizer_json(read_json(folder / "tokenizer.json"))
    if is_there(folder / "vocab.json") and is_there(folder / "merges.txt"):
        vocab = read_json(folder / "vocab.json")
        lines = read_text(folder / "merges.txt").split("\n")
        pairs = [line for line in lines if line and not line.startswith("#version")]
        more = folder / "added_tokens.json"
        added = read_json(more) if is_there(more) else {}
        ordinary = added.keys() - {END_OF_TEXT.decode()}
        words = "vocab.json, added_tokens.json" if added else "vocab.json"
        files = (words, "merges.txt")
        merges = pairs_of(pairs, "merges.txt")
        return Tokenizer({**vocab, **added}, merges, ordinary, files=files)
    if is_there(folder / "tokens.json"):
        return TokenList(read_list(folder / "tokens.json"))
    raise CheckpointError(
        f"{folder}: no tokenizer; put vocab.json and merges.txt, or tokenizer.json, beside the "
        "weights, or tokens.json, a plain list"
    )


def _from_tokenizer_json(values: Mapping[str, Any]) -> Tokenizer:
    file = "tokenizer.json"
    model, before = (values.get(part) for part in ("model", "pre_tokenizer"))
    if not (
        (isinstance(model, dict) and model.get("type", "BPE") == "BPE")
        and (isinstance(before, dict) and before.get("type") == "ByteLevel")
    ):
        raise CheckpointError(f"{file}: only byte-level BPE, as GPT-2 has it, can be read")
    refused = [name for name in _REFUSED if model.get(name)]
    refused += ["normalizer"] if values.get("normalizer") else []
    refused += ["add_prefix_space"] if before.get("add_prefix_space") else []
    refused += ["use_regex = false"] if not before.get("use_regex", True) else []
    if refused:
        raise CheckpointError(f"{file}: GPT-2 has no {' and no '.join(refused)}")
    try:
        added = values.get("added_tokens") or ()
        ids = {token["content"]: token["id"] for token in added}
        special = {token["content"] for token in added if token["special"]}
        greedy = {token["content"] for token in added if any(map(token.get, _GREEDY))}
        if wrong := sorted(greedy - special):
            raise CheckpointError(
                f"{file}: the added token {short(wrong[0])} takes the space around it "
                f"along or stands only for whole words ({', '.join(_GREEDY)}), which can't be read"
            )
        pairs = pairs_of(model["merges"], file)
        vocab = {**model["vocab"], **ids}
        return Tokenizer(vocab, pairs, ids.keys() - special, special, greedy, (file, file))
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{file}: not in the expected form ({error!r:.200})") from None
