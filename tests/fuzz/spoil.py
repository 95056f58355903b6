"""Ways to spoil a checkpoint. Each takes its files and a random generator, and changes the files.

One that has to touch the folder itself (a link, a pipe, a file of 800 GB that is all hole) returns
what is to be done there once the files are written.
"""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from tests.fuzz.files import (
    INDEX,
    Files,
    array,
    join,
    link,
    split,
    tensor_names,
    weights_of,
    words_of,
)

Later = Callable[[Path], None]

ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 3, 5, 2**31, 2**31 - 1, 2**53, 2**63, 2**64, 10**7, 10**400),
    *(0.5, -0.0, 1e308, 1e-320, float("nan"), float("inf"), "", "24", "x" * 100_000, "\ud800"),
    *([], {}, [24], {"a": 1}, [[]], "\x00", "../../etc/passwd", "<b>x</b>"),
]
NUMBERS = [float("nan"), float("inf"), float("-inf"), 3e38, -3e38, 1e30, 1e-42, 0.0]
DTYPES = ["F16", "BF16", "F64", "I64", "U8", "BOOL", "F8_E4M3", "C64", "F4", "", "f32", None, 32]


def cut(files: Files, rng: Random) -> None:
    name = rng.choice(sorted(files))
    files[name] = files[name][: rng.randrange(len(files[name]))]


def flip(files: Files, rng: Random) -> None:
    """A few bits anywhere in any file."""
    name = rng.choice(sorted(files))
    _flip(files, name, rng, 0, len(files[name]))


def flip_header(files: Files, rng: Random) -> None:
    name = weights_of(files, rng)
    _flip(files, name, rng, 0, 8 + int.from_bytes(files[name][:8], "little"))


def flip_data(files: Files, rng: Random) -> None:
    name = weights_of(files, rng)
    start = 8 + int.from_bytes(files[name][:8], "little")
    _flip(files, name, rng, start, len(files[name]))


def _flip(files: Files, name: str, rng: Random, first: int, last: int) -> None:
    content = bytearray(files[name])
    for _ in range(rng.choice([1, 1, 2, 8])):
        content[rng.randrange(first, last)] ^= 1 << rng.randrange(8)
    files[name] = bytes(content)


def lose(files: Files, rng: Random) -> None:
    del files[rng.choice(sorted(files))]


def header(files: Files, rng: Random) -> None:
    """One tensor's entry in the header of the weights is another."""
    file = weights_of(files, rng)
    entries, data = split(files[file])
    name = rng.choice(tensor_names(entries))
    entry = entries[name]
    match rng.randrange(7):
        case 0:
            entry["shape"] = rng.choice([[2**31, 24], [2**62, 4], [0], [], [-1, 24], [24.5], ODD])
        case 1:
            entry["data_offsets"] = [rng.choice([0, 5, 2**40, 2**63, -1]), rng.choice([0, 2**63])]
        case 2:
            entry["dtype"] = rng.choice(DTYPES)
        case 3:
            entry[rng.choice(sorted(entry))] = rng.choice(ODD)
        case 4:
            entries[name] = rng.choice(ODD)
        case 5:
            del entries[name]
        case _:
            entries[rng.choice(["", "wte", "h.-1.x", "x" * 5000, name.upper()])] = entries.pop(name)
    files[file] = join(entries, data)


def _made(way: bytes | Callable[[], bytes]) -> bytes:
    """Large contents are made only where they are chosen: they take most of the time."""
    return way if isinstance(way, bytes) else way()


def header_text(files: Files, rng: Random) -> None:
    """The header of the weights as a whole: too long, too deep, no JSON, a tensor twice."""
    file = weights_of(files, rng)
    entries, data = split(files[file])
    written = json.dumps(entries).encode()
    name = rng.choice(tensor_names(entries))
    twice = json.dumps({name: entries[name]}).encode()[:-1] + b"," + written[1:]
    headers: list[bytes | Callable[[], bytes]] = [
        *(b"[" * 50_000, b"\xff" + written, b"[]", b"{}", b"null", twice),
        lambda: b" " * 9_000_000,
        lambda: json.dumps({f"h.{n}.x": entries[name] for n in range(20_000)}).encode(),
        *(b'{"__metadata__":{"a":1}}', written[:-1]),
    ]
    files[file] = join(_made(rng.choice(headers)), data)
    if rng.random() < 0.3:
        size = rng.choice([0, 2, 10**8, 2**31, 2**63, 2**64 - 1])
        files[file] = size.to_bytes(8, "little") + files[file][8:]


def config(files: Files, rng: Random) -> None:
    values = json.loads(files["config.json"])
    sizes = ["n_layer", "n_embd", "n_head", "n_positions", "vocab_size", "n_inner"]
    others = ["layer_norm_epsilon", "activation_function", "tie_word_embeddings", "model_type"]
    others += ["attn_pdrop", "num_hidden_layers", "pruned_heads", "scale_attn_by_inverse_layer_idx"]
    for _ in range(rng.choice([1, 1, 1, 3])):
        values[rng.choice(sizes + others)] = rng.choice(ODD)
    files["config.json"] = json.dumps(values).encode()


def no_json(files: Files, rng: Random) -> None:
    """A file that should be JSON is something else."""
    name = rng.choice(sorted(name for name in files if name.endswith(".json")))
    whole = files[name]
    ways: list[bytes | Callable[[], bytes]] = [
        *(b"", b"{", b"[]", b"null", b"\xff\xfe{}", b"\xef\xbb\xbf" + whole, b"[" * 200_000),
        *(b'{"a":' * 100_000, whole[:-1] + b',"n":' + b"9" * 5000 + b"}", b"\x00" * 100),
        whole.replace(b":", b"::", 1),
        lambda: b"[" + b"[]," * 3_000_000 + b"0]",
        *(b"[{}]", b"{}"),
        lambda: b'{"a":"' + b"x" * 20_000_000 + b'"}',
        whole.decode().encode("utf-16"),
    ]
    files[name] = _made(rng.choice(ways))


def numbers(files: Files, rng: Random) -> None:
    """NaN, infinity and numbers near the end of float32, in one place or in a whole tensor."""
    file = weights_of(files, rng)
    entries, data = split(files[file])
    copied = bytearray(data)
    values = array(entries, copied, rng.choice(tensor_names(entries)))
    places = slice(None) if rng.random() < 0.2 else rng.randrange(values.size)
    values[places] = rng.choice(NUMBERS)
    files[file] = join(entries, bytes(copied))


def tensors(files: Files, rng: Random) -> None:
    """Whole tensors of another size, kind or name, in a file that is right as a file."""
    file = weights_of(files, rng)
    found = load(files[file])
    name = rng.choice(sorted(found))
    kinds = [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.bool, torch.uint8]
    kinds += [torch.float8_e4m3fn, torch.complex64]
    match rng.randrange(6):
        case 5:
            before = rng.choice(["module.", "_orig_mod.", "module._orig_mod."])
            found = {before + name: found[name] for name in found}
            found[rng.choice(["score.weight", "module.v_head.x", "classifier."])] = torch.ones(2)
        case 0:
            found[name] = found[name].to(rng.choice(kinds))
        case 1:
            found[name] = found[name].flatten()[: rng.randrange(found[name].numel())].clone()
        case 2:
            found[name] = found[name][None].clone()
        case 3:
            other = rng.choice(["h.99.ln_1.bias", "lm_head.weight", "wte.weight", "", "a/b"])
            found[other] = found[name].clone()
        case _:
            found = {name: found[name].to(torch.float16) for name in found}
    files[file] = save(found, {"format": "pt"})


def vocabulary(files: Files, rng: Random) -> None:
    """Ids and tokens that can't be, or are there twice."""
    file = words_of(files)
    values = json.loads(files[file])
    model = values.get("model", values)
    vocab = model.get("vocab", model)
    token = rng.choice(sorted(vocab))
    match rng.randrange(5):
        case 0:
            vocab[token] = rng.choice(ODD)
        case 1:
            del vocab[token]
        case 2:
            vocab[rng.choice(["", "\ud800", "\x00", "é\u0301", " ", "x" * 10**6])] = len(vocab)
        case 3:
            vocab |= {f"{token}{n}": 500 + n for n in range(100_000)}
        case _:
            vocab[token] = vocab[rng.choice(sorted(vocab))]
    files[file] = json.dumps(values).encode()


def merges(files: Files, rng: Random) -> None:
    """Merges that make nothing, themselves, each other, or are very many."""
    odd = [
        "",
        "a",
        "a b c",
        " ",
        "a ",
        " a",
        "\u0120 \u0120",
        "x" * 10**6 + " y",
        "\x00 \x00",
        "é é",
    ]
    ways: list[list[Any]] = [
        [rng.choice(odd)],
        [["", "a"]],
        [["a", ""]],
        [["a", ["b"]]],
        [None],
        [7],
    ]
    new = rng.choice(ways)
    times = rng.choice([1, 1, 300_000])
    if "merges.txt" in files:
        lines = "\n".join(list(map(str, new)) * times)
        first = rng.random() < 0.5
        parts = (
            [lines.encode(), files["merges.txt"]]
            if first
            else [files["merges.txt"], lines.encode()]
        )
        files["merges.txt"] = b"\n".join(parts)
        return
    values = json.loads(files["tokenizer.json"])
    new = new * times
    values["model"]["merges"] = rng.choice([new + values["model"]["merges"], new, *ODD])
    files["tokenizer.json"] = json.dumps(values).encode()


def added(files: Files, rng: Random) -> None:
    """Tokens that were added later, and the other parts of a tokenizer.json."""
    if "tokenizer.json" not in files:
        content = rng.choice(["", "a", "<|new|>", "x" * 10**6, "(", "\ud800"])
        files["added_tokens.json"] = json.dumps({content: rng.choice(ODD)}).encode()
        return
    values = json.loads(files["tokenizer.json"])
    part = rng.choice([values, values["model"], values["pre_tokenizer"], values["added_tokens"][0]])
    part[rng.choice(sorted(part))] = rng.choice(ODD)
    if rng.random() < 0.3:
        values["added_tokens"] = [{"id": 401 + n, "content": "(" * n} for n in range(200)]
    files["tokenizer.json"] = json.dumps(values).encode()


def index(files: Files, rng: Random) -> None:
    """An index that names other folders, nothing, or too much."""
    names = ["../model.safetensors", "/etc/passwd", "gone.safetensors", "", ".", "..", "a\x00b"]
    names += ["/dev/zero", "config.json", "sub/model.safetensors", "~/x", "\ud800", "x" * 10**5]
    places = json.loads(files[INDEX])["weight_map"] if INDEX in files else {"wte.weight": "x"}
    places[rng.choice(sorted(places))] = rng.choice([*names, *ODD])
    values: Any = {"weight_map": rng.choice([places, places, places, rng.choice(ODD)])}
    files[INDEX] = json.dumps(values).encode()
    for name in [name for name in files if name == "model.safetensors"]:
        files["other.safetensors"] = files.pop(name)


class _Runs:
    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return os.mkdir, ("PICKLE_RAN",)


def pickled(files: Files, rng: Random) -> None:
    """Something else under the weights' name; a pickle would leave a folder where it ran."""
    file = weights_of(files, rng)
    written = io.BytesIO()
    torch.save({"wte.weight": torch.zeros(3)}, written)
    lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 548105171\n"
    others = [pickle.dumps(_Runs()), written.getvalue(), lfs, b"<html>404</html>", b"\x7fELF" * 99]
    files[file] = rng.choice(others)


def linked(files: Files, rng: Random) -> Later:
    """A file is a link, a pipe or a folder."""
    name = rng.choice(sorted(files))
    targets = ["/etc/passwd", "/dev/zero", "/dev/stdin", "/proc/self/mem", name, "gone", "..", "."]
    way = rng.choice([*targets, "pipe", "folder", "outside", "inside"])
    content = files[name]

    def do(folder: Path) -> None:
        if way == "outside":
            (folder.parent / "outside").write_bytes(content)
            link(folder, name, "../outside")
        elif way == "inside":
            (folder / "elsewhere").write_bytes(content)
            link(folder, name, "elsewhere")
        elif way in ("pipe", "folder"):
            (folder / name).unlink()
            os.mkfifo(folder / name) if way == "pipe" else (folder / name).mkdir()
        else:
            link(folder, name, way)

    return do


def hollow(files: Files, rng: Random) -> Later:
    """Header and config agree on sizes that no memory holds; the file is one large hole."""
    file = weights_of(files, rng)
    entries, _ = split(files[file])
    values = json.loads(files["config.json"])
    values["vocab_size"] = rows = rng.choice([2**31, 2**33])
    files["config.json"] = json.dumps(values).encode()
    last = max(entries[name]["data_offsets"][1] for name in tensor_names(entries))
    for name in tensor_names(entries):
        if name.endswith("wte.weight"):
            at = last
            last += rows * 24 * 4
            entries[name] = {"dtype": "F32", "shape": [rows, 24], "data_offsets": [at, last]}
    files[file] = whole = join(entries, b"")
    size = len(whole) + last
    return lambda folder: os.truncate(folder / file, size)


WAYS: tuple[Callable[[Files, Random], Later | None], ...] = (
    *(cut, flip, flip_header, flip_data, lose, header, header_text, config, no_json, numbers),
    *(tensors, vocabulary, merges, added, index, pickled, linked, hollow),
)


def spoil(files: Files, seed: str, n: int) -> tuple[str, list[Later]]:
    """Spoil the files in the n-th way, and every fifth time in another one too; what was done."""
    rng = Random(f"{seed}:{n}")
    ways = [WAYS[n % len(WAYS)]]
    if n % 5 == 4:
        ways.append(rng.choice(WAYS))
    later = []
    for way in ways:
        try:
            later.append(way(files, rng))
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            RecursionError,
            SafetensorError,
        ):
            continue  # what the first way left can't be spoiled in the second
    return " + ".join(way.__name__ for way in ways), list(filter(None, later))
