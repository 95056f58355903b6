"""Spoiled files: each is read, or refused in a sentence that names it, in bounded time and memory.

Checkpoints in four layouts, a training's steps, saved traces and sessions, and pickles that are
converted. ``python -m tests.model.test_spoiled 20000`` tries more of them than a run of the tests.
"""

from __future__ import annotations

import faulthandler
import json
import os
import pickle
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import gpt2viz
from gpt2viz.analysis.nonfinite import first_not_finite
from gpt2viz.export import save_trace
from gpt2viz.model.convert import convert
from gpt2viz.model.packed import write_packed
from gpt2viz.model.pickles import tokens_of
from gpt2viz.run.session import Session, open_session, run_of
from tests import layouts
from tests.checkpoints import transformers_model, write_checkpoint
from tests.gguf_files import TINY, write_gguf
from tests.processes import run_fork

#: Bytes by file name, and with the function that reads a folder of them.
Files = dict[str, bytes]
Case = tuple[Files, Callable[[Path], Any]]

SECONDS, MEGABYTES, LONGEST = 30, 500, 900
BAD_VALUES: list[Any] = [
    *(None, True, 0, -1, 1, 2, 5, 2**31, 2**53, 2**64, 10**7, 10**400, 0.5, 1e308, -1e-320),
    *(float("nan"), float("inf"), "", "24", "x" * 100_000, "\ud800", "\x00", "\x1b[2J", "a b c"),
    *("../../etc/passwd", "/dev/zero", "(" * 90, [], {}, [24], {"a": 1}, [[]], ["", "a"], [2**62]),
]
CONTENTS = [
    *(b"", b"{", b"[]", b"{}", b"null", b"\xff\xfe", bytes(100), b"[" * 200_000, b"[{}]"),
    *(b'{"a":' * 100_000, b"<html>404</html>", b"\x7fELF" * 99, b"[" + b"[]," * 3_000_000 + b"0]"),
    pickle.dumps({"wte.weight": print}),
]
NUMBERS = np.array([np.nan, np.inf, -np.inf, 3e38, 1e30, 1e-42], "<f4")


def files_of(folder: Path) -> Files:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run(folder: Path) -> None:
    """Load a model and run it: its numbers are finite, or it says which aren't."""
    model = gpt2viz.load_model(folder)
    trace = gpt2viz.trace(model, [5, 6, 7])
    model.tokenizer.decode(model.tokenizer.encode("ab  abc12"))
    if not first_not_finite(trace) and not np.isfinite(trace.logits).all():
        raise AssertionError("NaN without a word")


def cases(folder: Path) -> list[Case]:
    """Intact files of every kind."""
    from transformers import GPT2Tokenizer

    tiny = write_checkpoint(folder / "tiny")
    model = gpt2viz.load_model(tiny)
    weights = dict(model.network.named_parameters())
    vocab, merges = (str(tiny / name) for name in ("vocab.json", "merges.txt"))
    GPT2Tokenizer(vocab=vocab, merges=merges).save_pretrained(folder / "fast")
    transformers_model(tiny).save_pretrained(folder / "fast", max_shard_size="100KB")
    (folder / "gguf").mkdir()
    theirs = load_file(tiny / "model.safetensors")
    write_gguf(folder / "gguf" / "tiny.gguf", "gpt2", TINY, theirs, n_layers=3)
    shutil.copytree(tiny, folder / "trained")
    (folder / "trained" / "steps").mkdir()
    write_packed(weights, folder / "trained" / "steps" / "step-1.safetensors")
    (folder / "trained" / "steps" / "steps.json").write_text('{"model": 3}', encoding="utf-8")
    trace = gpt2viz.trace(model, [1, 2])
    network = layouts.random_weights(layouts.CurrentGPT(nano=True, bias=False))
    alone = folder / "alone"
    alone.mkdir()
    for kind in ("npz", "safetensors"):
        save_trace(trace, alone / f"run.{kind}")
    layouts.save_nano(network, alone / "ckpt.pt", bias=False)
    torch.save(network.state_dict(), alone / "old.pt", _use_new_zipfile_serialization=False)
    session = Session("Attention", {"text": "A", "model": str(tiny)})
    (alone / "session.json").write_text(session.to_json(), encoding="utf-8")
    itos = {0: "a", 1: "b"}
    (alone / "meta.pkl").write_bytes(pickle.dumps({"itos": itos, "stoi": {"a": 0, "b": 1}}))
    readers: dict[str, Callable[[Path], Any]] = {
        "run.npz": lambda at: gpt2viz.load_trace(at, model),
        "run.safetensors": lambda at: gpt2viz.load_trace(at, model),
        "ckpt.pt": lambda at: convert(at, at.parent / "made"),
        "old.pt": lambda at: convert(at, at.parent / "made", 4),
        "session.json": lambda at: run_of(open_session(at)),
        "meta.pkl": tokens_of,
    }
    return [
        (files_of(tiny), run),
        (files_of(folder / "fast"), run),
        (files_of(folder / "gguf"), lambda at: run(at / "tiny.gguf")),
        (files_of(folder / "trained"), lambda at: list(gpt2viz.load_steps(at).values())),
        *(
            ({name: (alone / name).read_bytes()}, lambda at, n=name, read=read: read(at / n))
            for name, read in readers.items()
        ),
    ]


def cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def flip(content: bytes, random: Random) -> bytes:
    """Flip a few bits, in the header or anywhere."""
    changed, end = bytearray(content), random.choice([2000, len(content)])
    for _ in range(random.choice([1, 1, 2, 8])):
        changed[random.randrange(min(end, len(content)))] ^= 1 << random.randrange(8)
    return bytes(changed)


def put_number(content: bytes, random: Random) -> bytes:
    """Replace a float32 by NaN, infinity, or a very large or small number."""
    at = len(content) - 4 * random.randrange(1, len(content) // 4)
    return content[:at] + random.choice(NUMBERS).tobytes() + content[at + 4 :]


def replace(_content: bytes, random: Random) -> bytes:
    return random.choice(CONTENTS)


def put_value(content: bytes, random: Random) -> bytes:
    """Replace one value of JSON, of a safetensors header, or of a list of merges."""
    if content.startswith(b"#version"):
        lines = content.split(b"\n")
        bad = repr(random.choice(BAD_VALUES)).encode() * random.choice([1, 1, 3])
        return b"\n".join([*lines, *[bad] * random.choice([1, 300_000])])
    if content.startswith(b"{"):
        return _with_bad_value(json.loads(content), random)
    length = int.from_bytes(content[:8], "little")
    if content[8:9] != b"{":
        return flip(content, random)
    header = _with_bad_value(json.loads(content[8 : 8 + length]), random)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def _with_bad_value(whole: Any, random: Random) -> bytes:
    """JSON with one value replaced, removed, renamed, or repeated many times."""
    holder: Any = whole
    while True:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        key = random.choice(keys)
        if not (isinstance(holder[key], dict | list) and holder[key]) or random.random() < 0.2:
            break
        holder = holder[key]
    match random.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[random.choice(["", "\x00", "h.-1.x", "x" * 5000])] = holder.pop(key)
        case 2 if isinstance(holder, dict):
            holder |= {f"{key}{n}": 500 + n for n in range(100_000)}
        case 3 if isinstance(holder, list):
            holder *= 10_000
        case _:
            holder[key] = random.choice(BAD_VALUES)
    return json.dumps(whole).encode()


#: Functions that put something else in a file's place.
UNUSUAL: list[Callable[[Path], Any]] = [
    *(os.mkfifo, Path.mkdir, lambda path: path.symlink_to(path)),
    *(lambda path, to=to: path.symlink_to(to) for to in ("/dev/zero", "gone", "/etc/passwd", "..")),
    lambda path: (path.touch(), os.truncate(path, 10**12)),
    lambda _path: None,
]
WAYS = (cut, flip, flip, put_number, replace, put_value, put_value, put_value)


def spoil(files: Files, folder: Path, random: Random) -> str:
    """Write the files into a new folder, one or two of them spoiled; the description of this."""
    shutil.rmtree(folder, ignore_errors=True)
    done, contents = [], dict(files)
    for name in random.sample(sorted(files), min(len(files), random.choice([1, 1, 1, 2]))):
        way = random.choice(WAYS)
        contents[name] = way(contents[name], random)
        done.append(f"{way.__name__} {name}")
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    if random.random() < 0.2:
        name, n = random.choice(sorted(files)), random.randrange(len(UNUSUAL))
        (folder / name).unlink()
        UNUSUAL[n](folder / name)
        done = [f"unusual {n} {name}"]
    return ", ".join(done)


def fault_of(folder: Path, files: Files, read: Callable[[Path], Any]) -> str | None:
    """The fault in the refusal of a folder: "" for none, None if it was read."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)  # ends a wait for a pipe, in C too
    try:
        read(folder)
    except gpt2viz.GPT2VizError as error:
        message = str(error)
        if len(message) > LONGEST or not message.replace("\n", "").isprintable():
            return f"no short plain text: {message!r:.300}"
        names = {Path(name).name for name in files} | {folder.name, Path(next(iter(files))).stem}
        # A session asks for a model and a text, which can be wrong without it.
        named = "session.json" in files or any(name in message for name in names)
        return "" if named else f"no file named: {message:.300}"
    except BaseException as error:
        return f"{type(error).__name__}: {error!s:.300}"
    finally:
        faulthandler.cancel_dump_traceback_later()
    return None


def main(count: int) -> None:
    """Print the faults of ``count`` spoiled cases and the number refused; a hang ends the run."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as made:
        whole, refused = cases(Path(made)), 0
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        now = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData"))
        resource.setrlimit(resource.RLIMIT_DATA, (now + MEGABYTES * 10**6,) * 2)
        for n in range(count):
            files, read = whole[n % len(whole)]
            folder = Path(made) / "spoiled"
            done = spoil(files, folder, Random(n))
            fault = fault_of(folder, files, read)
            refused += fault is not None
            if fault:
                print(f"FAULT {n}, {done}: {fault}")
        print(refused)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the memory")
@pytest.mark.slow
def test_spoiled_files_are_read_or_refused(tmp_path: Path) -> None:
    """In its own process, so that a crash or an exhausted memory is a failure too."""
    text = tmp_path / "said.txt"
    assert run_fork(main, 600, log=text) == 0, text.read_text(encoding="utf-8")
    *faults, refused = text.read_text(encoding="utf-8").splitlines()
    assert not faults
    assert 300 < int(refused) < 590  # a spoiled file can still be a whole model


if __name__ == "__main__":
    main(int(sys.argv[1]))
