"""Write a checkpoint folder: a byte-level BPE tokenizer, and the weights.

GPT-2's variant (Radford et al. 2019) of Sennrich et al. 2016. The `tokenizers` library learns the
merges, and GPT-2's ``vocab.json`` and ``merges.txt`` are written. Ids follow the order of the
merges, with ``<|endoftext|>`` last, as in GPT-2. Weights have Hugging Face's layout, at half
precision.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import ByteLevelBPETokenizer

from gpt2viz.files import whole
from gpt2viz.model.config import GPT2Config
from gpt2viz.model.network import GPT2
from gpt2viz.model.weights import CONV1D
from gpt2viz.training.corpus import SEPARATOR, CorpusError

# The app's examples. Their words should be whole tokens, though a few ("lifted steel") are rare in
# children's books: the BPE is trained on REPEATS copies of each sentence, the model on none.
SENTENCES = (
    "A crane ate fish",
    "A crane lifted steel",
    "Crane ate fish",
    "Crane ate a fish",
    "Crane lifted steel",
    "The crane lifted the steel",
    "The steel was lifted by a crane",
    "The fish was eaten by a crane",
    "The animal didn't cross the street because it was too tired",
    "The animal didn't cross the street because it was too wide",
    "The trophy didn't fit in the suitcase because it was too big",
    "The trophy didn't fit in the suitcase because it was too small",
    "Dog bites man",
    "Man bites dog",
    "dog bites man",
    "man bites dog",
    "She sat by the bank of the river",
    "She sat on the bank of the river and counted the boats",
    "He put his money in the bank",
    "She took her money to the bank",
    "The cat sat on the mat",
    "The cat sat on the mat and the dog sat on the rug",
    "Your journey starts with one step",
    "When Mary and John went to the store, John gave a drink to Mary",
    "When Alice and John went to the shop, John gave an apple to Alice",
    "Alice and Mary met John. John said to Alice and Mary that he was late",
    "Mary gave John an apple, and then he thanked her",
    "The doctor told the nurse that she was late",
    "The teacher told the student that he was early",
    "The king and the queen lived in a castle",
    "The keys to the cabinet are on the table",
    "The quick brown fox jumps over the lazy dog",
    "Once upon a time there was a little girl",
    "Time flies like an arrow; fruit flies like a banana",
    "Attention is all you need",
    "Every token looks at the tokens before it",
    "The robot picked up the ball because it was heavy",
    "The capital of France is Paris, and the capital of England is London",
    "To be or not to be, that is the question",
    "Hello world! Hello again",
    "Hello, my name is Alice",
    "one two three four five one two three four five",
    "red blue green yellow red blue green yellow",
    "Tom and Anna and Peter and Lucy went to the park",
    "I like tea and she likes coffee",
)
REPEATS = 3000


def train_bpe(
    texts: Iterable[str], vocab_size: int, sentences: Iterable[str] = SENTENCES
) -> ByteLevelBPETokenizer:
    """Train a BPE of ``vocab_size`` tokens: the 256 bytes, the merges, and ``<|endoftext|>``.

    Deterministic for the same texts. Raises ``CorpusError`` if the texts are too short for so
    many.
    """
    tokenizer = ByteLevelBPETokenizer()
    repeated = (sentence for sentence in sentences for _ in range(REPEATS))
    tokenizer.train_from_iterator(
        chain(texts, repeated), vocab_size - 1, min_frequency=0, show_progress=False
    )
    if tokenizer.get_vocab_size() != vocab_size - 1:
        raise CorpusError(
            f"the text gives only {tokenizer.get_vocab_size() + 1} tokens, not {vocab_size}"
        )
    tokenizer.add_special_tokens([SEPARATOR])
    return tokenizer


def save_bpe(tokenizer: ByteLevelBPETokenizer, folder: Path) -> None:
    """Write GPT-2's two files, ``vocab.json`` and ``merges.txt``, into an existing folder."""
    vocab = dict(sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]))
    with whole(folder / "vocab.json") as partial:
        partial.write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    with TemporaryDirectory(dir=folder) as made, whole(folder / "merges.txt") as partial:
        tokenizer.save_model(made)
        Path(made, "merges.txt").replace(partial)


def load_bpe(folder: Path) -> ByteLevelBPETokenizer:
    """Read the two files of :func:`save_bpe`."""
    files = str(folder / "vocab.json"), str(folder / "merges.txt")
    tokenizer = ByteLevelBPETokenizer.from_file(*files)
    tokenizer.add_special_tokens([SEPARATOR])
    return tokenizer


def export(network: GPT2, folder: Path) -> None:
    """Write ``config.json`` and ``model.safetensors`` (float16) into an existing folder."""
    weights = {}
    for name, tensor in network.state_dict().items():
        if name == "lm_head.weight" and network.config.tie_word_embeddings:
            continue
        half = tensor.detach().to("cpu", torch.float16)
        key = name if name == "lm_head.weight" else f"transformer.{name}"
        weights[key] = half.t().contiguous() if name.endswith(CONV1D) else half.contiguous()
    with whole(folder / "model.safetensors") as partial:
        save_file(weights, partial, metadata={"format": "pt"})
    config = json.dumps(_config(network.config), indent=2)
    with whole(folder / "config.json") as partial:
        partial.write_text(config + "\n", encoding="utf-8")


def _config(config: GPT2Config) -> dict[str, Any]:
    last = config.vocab_size - 1
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **asdict(config),
        "bos_token_id": last,
        "eos_token_id": last,
    }
