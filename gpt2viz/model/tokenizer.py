"""Text to token ids and back, by a checkpoint's own byte-pair encoding.

GPT-2's tokenizer (Sennrich et al. 2016, on bytes as in Radford et al. 2019) cuts a text with a
regular expression and merges the bytes of each piece, the most frequent pair of the training
text first. Hugging Face's ``tokenizers`` does the work, so ids are those of transformers;
``gpt2viz.model.tokenizer_files`` reads the checkpoint's files for it.
A model that was trained on characters, or on a few words, has no merges: its vocabulary is a plain
list, ``tokens.json``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, models, pre_tokenizers

from gpt2viz.errors import CheckpointError, TextError
from gpt2viz.files import is_there, read_list
from gpt2viz.model.byte_letters import BYTE_OF, to_bytes, to_letters
from gpt2viz.model.config import END_OF_TEXT
from gpt2viz.model.tokenizer_files import read_vocabulary
from gpt2viz.model.vocabulary import check_ids, check_list, check_made, ranked, short

# Half a surrogate pair in a token's name has bytes too.
_SURROGATES = "surrogatepass"

# Tokens that a message names.
_NAMED = 12

# Stands where a byte has no token; its id is larger than that of any token.
_MISSING, _MISSING_ID = "\0missing", 2**32 - 1


class Tokenizer:
    """Encode and decode text with the vocabulary of one checkpoint."""

    #: Whether tokens are words that white space only separates: then it is in none of them.
    apart = False
    #: Ids that stand before every text, and after it, as the checkpoint's files say.
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    #: Whether a text that begins with no space gets one.
    prefix_space = False

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        added: Iterable[AddedToken] = (),
        files: tuple[str, str] = ("vocabulary", "merges"),
        *,
        first: Sequence[int] = (),
        last: Sequence[int] = (),
        prefix_space: bool = False,
        unnumbered: Mapping[str, str] | None = None,
    ) -> None:
        """``vocab`` maps a token, in the letters of ``vocab.json``, to its id; ``merges`` are
        the pairs in the order of their rank. ``added`` are the entries that a text has as they are
        written, such as a new word; special ones are found in a text only when asked for, and
        ``<|endoftext|>`` is one. Some of them may be ``unnumbered``, with the reason: a text that
        has one is refused. ``files`` are named where vocabulary or merges are refused, with a
        ``CheckpointError``. ``first``, ``last`` and ``prefix_space`` are the attributes of these
        names."""
        words, pairs = files
        check_ids(vocab, words)
        by_name = {END_OF_TEXT.decode(): AddedToken(END_OF_TEXT.decode(), special=True)}
        by_name |= {token.content: token for token in added}
        made = {left + right for left, right in merges}
        check_made(vocab, made, by_name, files)
        made.discard("")
        ordinary = {token: i for token, i in vocab.items() if token in made or token in BYTE_OF}
        self._ordinary = frozenset(ordinary.values())
        self._bytes = {
            i: to_bytes(token, words) if token in ordinary else token.encode(errors=_SURROGATES)
            for token, i in vocab.items()
        }
        #: The rank of every merge: its place in the list, from 0.
        self.merges = ranked(merges, {self._bytes[i] for i in self._ordinary}, pairs)
        end = END_OF_TEXT.decode()
        #: The id of ``<|endoftext|>``, or None for a vocabulary without this special token.
        self.end_of_text = None if end in ordinary else vocab.get(end)
        self.first, self.last, self.prefix_space = tuple(first), tuple(last), prefix_space
        reasons = unnumbered or {}
        numbers = {name: _MISSING_ID - n for n, name in enumerate(reasons, start=1)}
        # Ids that no text may have, and why.
        self._refused = {numbers[name]: reason for name, reason in reasons.items()}
        ids = {**vocab, **numbers}
        self._added = {t: (ids[t], token) for t, token in by_name.items() if t and t in ids}
        self._special = _finder(t for t, (_, token) in self._added.items() if token.special)
        self._n_lacking = len(BYTE_OF.keys() - ordinary.keys())
        if self._n_lacking == len(BYTE_OF):
            raise CheckpointError(f"{words}: no byte has a token; only byte-level BPE can be read")
        self._ids("", special=False)  # makes the engine now, not with the first text

    def _engine(self, *, special: bool) -> tokenizers.Tokenizer:
        """The engine; with ``special`` it reads names of special tokens as these tokens."""
        vocab = {to_letters(self._bytes[i]): i for i in self._ordinary}
        vocab |= {token: i for token, (i, _) in self._added.items()}
        pairs = sorted(self.merges, key=self.merges.__getitem__)
        merges = [(to_letters(left), to_letters(right)) for left, right in pairs]
        model = models.BPE({**vocab, _MISSING: _MISSING_ID}, merges, unk_token=_MISSING)
        engine = tokenizers.Tokenizer(model)
        engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=self.prefix_space)
        added = [token for _, token in self._added.values()]
        engine.add_special_tokens([token for token in added if token.special])
        engine.add_tokens([token for token in added if not token.special])
        engine.encode_special_tokens = not special
        return engine

    @cached_property
    def _as_text(self) -> tokenizers.Tokenizer:
        return self._engine(special=False)

    @cached_property
    def _as_tokens(self) -> tokenizers.Tokenizer:
        return self._engine(special=True)

    def __getstate__(self) -> dict[str, object]:
        """All but the engines, which are made again: pickled, they would lose gaps between ids."""
        return {k: v for k, v in vars(self).items() if k not in ("_as_text", "_as_tokens")}

    @property
    def n_vocab(self) -> int:
        """One more than the highest id, special tokens included."""
        return max(self._bytes) + 1

    def fit(self, rows: int, whose: str) -> None:
        """Refuse, from now on, texts with a token that has none of an embedding's ``rows``.

        Such tokens were added to the tokenizer alone. Raises ``CheckpointError``, which begins with
        ``whose``, where another token has no row, or one that stands in every text.
        """
        needed = self._ordinary.union(self.first, self.last)
        if (highest := max(needed)) >= rows:
            raise CheckpointError(
                f"{whose}: the tokenizer has {self.n_vocab:,} tokens, with the id {highest:,} for "
                f"{self._named(highest)}, but the model only {rows:,} (vocab_size). Give the "
                "tokenizer of this model"
            )
        self._refused |= {
            i: f"{self._named(i)} was added to the tokenizer, with the id {i:,}, but the model has "
            f"only {rows:,} tokens. Leave it out of the text"
            for i in self._bytes
            if i >= rows
        }

    def cuts_like(self, other: Tokenizer) -> bool:
        """True if both cut every text into the same tokens, with the same ids.

        Either may lack special tokens that no text is cut into.
        """
        both = self._bytes.keys() & other._bytes.keys()
        return self._cutting == other._cutting and all(
            self._bytes[n] == other._bytes[n] for n in both
        )

    @property
    def _cutting(self) -> tuple[object, ...]:
        """All that decides a text's token ids."""
        added = {(i, repr(token)) for i, token in self._added.values() if not token.special}
        return self._ordinary, added, self.merges, self.prefix_space, self.first, self.last

    def special_in(self, text: str) -> list[str]:
        """The special tokens whose names stand in a text, such as ``<|endoftext|>``."""
        return list(dict.fromkeys(self._special.findall(text)))

    def before(self, end_of_text_first: bool = False) -> tuple[int, ...]:
        """The ids that ``encode`` puts before a text: ``first``, and the end of text if asked for.

        Raises ``TextError`` where the vocabulary has no ``<|endoftext|>`` to put first.
        """
        if not end_of_text_first:
            return self.first
        if self.end_of_text is None:
            raise TextError("This model has no token <|endoftext|> to put first.")
        there = self.end_of_text in self.first
        return self.first if there else (*self.first, self.end_of_text)

    def own(self, ids: Sequence[int]) -> slice:
        """The slice of a text's own ids among those of ``encode``, without the added ones."""
        start = len(self.first) if tuple(ids[: len(self.first)]) == self.first else 0
        if self.end_of_text not in self.first and tuple(ids[start:][:1]) == (self.end_of_text,):
            start += 1
        end = len(ids) - len(self.last)
        return slice(start, end if tuple(ids[end:]) == self.last else len(ids))

    def encode(
        self, text: str, *, end_of_text_first: bool = False, special: bool = False
    ) -> list[int]:
        """Token ids of a text, with those that the checkpoint's tokenizer puts before and after it.

        A special token that is typed is ordinary text, not that token; ``special=True`` reads it
        as the token, as Hugging Face's tokenizers do.
        ``end_of_text_first`` puts the special token ``<|endoftext|>`` before the text, as it
        stands between texts in GPT-2's training, unless it comes first anyway.

        Raises ``TextError`` for half a surrogate pair, which stands for no character, where the
        vocabulary has no ``<|endoftext|>`` to put first, and for what this vocabulary can't spell:
        a byte without a token, a token that the model has no row for, or what a plain list lacks.
        """
        before = self.before(end_of_text_first)
        return [*before, *self.encode_part(text, special=special), *self.last]

    def encode_part(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of a text, or of a part of one, by itself: nothing is put around it.

        Raises ``TextError`` as ``encode`` does.
        """
        for n, char in enumerate(text):
            if "\ud800" <= char <= "\udfff":
                raise TextError(
                    f"Character {n + 1} of the text (U+{ord(char):04X}) is half of a surrogate "
                    "pair and stands for no character. Delete it and try again."
                )
        return self._ids(text, special)

    def _ids(self, text: str, special: bool) -> list[int]:
        encoding = (self._as_tokens if special else self._as_text).encode(text)
        ids: list[int] = encoding.ids
        if _MISSING_ID in ids:
            spans = (
                span for i, span in zip(ids, encoding.offsets, strict=True) if i == _MISSING_ID
            )
            chars = dict.fromkeys(text[start:end] for start, end in spans)
            raise TextError(
                f"{self._n_lacking} of the 256 bytes have no token in this model's vocabulary, "
                f"and the text needs them for {_listed(list(chars))}. Leave these out."
            )
        if (wrong := next((i for i in ids if i in self._refused), None)) is not None:
            raise TextError(f"{self._refused[wrong]}.")
        return ids

    def cut(self, text: str) -> Iterator[tuple[bytes, bool]]:
        """The parts of a text that are merged by themselves, and whether each is an added token."""
        encoding = self._as_text.encode(text)
        words = groupby(zip(encoding.word_ids, encoding.ids, strict=True), key=lambda pair: pair[0])
        for _, word in words:
            ids = [i for _, i in word]
            yield b"".join(map(self.token_bytes, ids)), self._ordinary.isdisjoint(ids)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one token: often a word with the space before it, sometimes only part
        of a character. Empty for an id that the vocabulary leaves unused."""
        return self._bytes.get(token_id, b"")

    def _named(self, token_id: int) -> str:
        return short(self.token_bytes(token_id).decode(errors="replace"))

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
        self._ordinary = frozenset(self._bytes)
        self.end_of_text = given.pop(end, None)
        self._id_of, self.merges, self._refused = given, {}, {}
        self._longest = max(map(len, given), default=0)
        self._separated = not any(map(_has_space, given))
        self.apart = self._separated and self._longest > 1
        self._special = _finder([] if self.end_of_text is None else [end])

    @property
    def _cutting(self) -> tuple[object, ...]:
        return ("list", self._ordinary)

    def cut(self, text: str) -> Iterator[tuple[bytes, bool]]:
        """Each token of a text by itself: nothing is merged."""
        return ((self._bytes[i], True) for i in self._ids(text, special=False))

    def decode(self, token_ids: Iterable[int]) -> str:
        """The text of a sequence of ids, with a space between words."""
        between = b" " if self.apart else b""
        return between.join(map(self.token_bytes, several(token_ids))).decode()

    def _ids(self, text: str, special: bool) -> list[int]:
        ids: list[int] = []
        for part in self._special.split(text) if special else [text]:
            if special and part == END_OF_TEXT.decode() and self.end_of_text is not None:
                ids.append(self.end_of_text)
            else:
                ids += self._listed_ids(part)
        return ids

    def _listed_ids(self, text: str) -> Iterator[int]:
        whole = text.split() if self._separated else [text]
        tokens = [(part, token) for part in whole for token in self._tokens(part)]
        unknown = (
            part if self.apart else token for part, token in tokens if token not in self._id_of
        )
        if names := list(dict.fromkeys(unknown)):
            sort = "words" if self.apart else "characters"
            raise TextError(
                f"The vocabulary of this model is a list of {len(self._bytes):,} tokens, in which "
                f"these {sort} are missing: {_listed(names)}. It has "
                f"{', '.join(map(short, list(self._id_of)[:_NAMED]))}"
                f"{' and others' if len(self._id_of) > _NAMED else ''}."
            )
        yield from (self._id_of[token] for _, token in tokens)

    def _tokens(self, text: str) -> Iterator[str]:
        """The longest token at each place, or a character that begins none."""
        position = 0
        while position < len(text):
            ends = range(min(len(text), position + self._longest), position, -1)
            whole = (t for end in ends if (t := text[position:end]) in self._id_of)
            token = next(whole, text[position])
            yield token
            position += len(token)


def several(token_ids: Iterable[int]) -> Iterable[int]:
    """The ids themselves. Raises ``TextError`` for what are none, such as a single id."""
    if isinstance(token_ids, str) or not isinstance(token_ids, Iterable):
        raise TextError(f"decode takes a list of token ids, such as [5], not {token_ids!r:.60}")
    return token_ids


def _has_space(token: str) -> bool:
    return any(map(str.isspace, token))


def _listed(names: Sequence[str]) -> str:
    """Some names, of which a message has room for the first few."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(map(short, names[:_NAMED]))}{more}"


def _finder(tokens: Iterable[str]) -> re.Pattern[str]:
    """Finds any of some tokens in a text, the longest first where several begin."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read ``tokenizer.json``, or ``vocab.json`` and ``merges.txt``, with what
    ``tokenizer_config.json`` and ``added_tokens.json`` add to them, or else a plain list,
    ``tokens.json``.

    Raises ``CheckpointError`` naming the file where one is missing, is neither byte-level BPE nor
    a list, or says something that would give other ids than are given here.
    """
    if (read := read_vocabulary(folder)) is not None:
        return Tokenizer(**read._asdict())
    if is_there(folder / "tokens.json"):
        return TokenList(read_list(folder / "tokens.json"))
    raise CheckpointError(
        f"{folder}: no tokenizer; put vocab.json and merges.txt, or tokenizer.json, beside the "
        "weights, or tokens.json, a plain list"
    )
