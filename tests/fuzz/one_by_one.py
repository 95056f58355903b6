"""Files that are read one by one, spoiled: python -m tests.fuzz.one_by_one --measure

Saved traces, sessions, what ``torch.save`` wrote, nanoGPT's vocabulary, a training's checkpoints:
each that can't be used must end in one sentence of our own errors, in bounded time and memory.
``--measure`` also says which took longest, and most.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

import gpt2viz
from gpt2viz.export import save_trace
from gpt2viz.model.convert import convert
from gpt2viz.model.pickles import tokens_of
from gpt2viz.run.session import Session, open_session, run_of
from tests.checkpoints import write_checkpoint
from tests.fuzz.__main__ import resident
from tests.fuzz.files import join

#: A message is no longer; nothing waits for so many seconds.
LONGEST, SECONDS = 900, 30
#: What makes a bad file of its path, or its bytes; a file's name; and what reads it.
Content = bytes | Callable[[Path], Any]
Bad = tuple[str, Content]
Read = Callable[[Path], Any]
DEEP = "[" * 100_000
PROTO, STOP = b"\x80\x02", b"."
LONG_NAME = "x" * 5000


def text(value: str) -> bytes:
    """A string of a pickle."""
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def archive(members: dict[str, bytes], way: int = zipfile.ZIP_STORED, times: int = 1) -> bytes:
    """A zip archive; each member stands ``times`` in its table of contents."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", way) as file:
        for name, content in members.items():
            file.writestr(name, content)
        file.filelist *= times
    return written.getvalue()


def npy(header: str, numbers: bytes = b"") -> bytes:
    """An array of NumPy's, whose header says what it likes."""
    line = header.encode("latin-1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(line)) + line + numbers


def traces(whole: bytes) -> Iterator[Bad]:
    """What is no file of a trace; ``whole`` is one."""
    members = {
        name: zipfile.ZipFile(io.BytesIO(whole)).read(name)
        for name in zipfile.ZipFile(io.BytesIO(whole)).namelist()
    }
    about = json.loads(str(np.load(io.BytesIO(whole))["about"]))

    def told(value: Any) -> bytes:
        written = io.BytesIO()
        np.save(written, np.array(value if isinstance(value, str) else json.dumps(value)))
        return archive(members | {"about.npy": written.getvalue()})

    odd: object
    for odd in (5, None, [], {}, DEEP, "", LONG_NAME, "\x00", "../" * 2000):
        yield from (("run.npz", told(about | {name: odd})) for name in ("model", "causal", "edits"))
    yield "run.npz", told(DEEP)
    yield "run.npz", told({name: about[name] for name in about if name != "causal"})
    of_floats = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }"
    for content in (
        b"no array",
        b"",
        npy(of_floats % "10**12,"),
        npy(of_floats % "1000000000000,"),
        npy(of_floats % "-1,"),
        npy(of_floats % "9" * 20),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", bytes(8)),
        npy("(" * 90),
        b"\x93NUMPY\x03\x00" + b"\xff" * 8,
    ):
        for name in ("q.1.npy", "about.npy", "token_ids.npy"):
            yield "run.npz", archive(members | {name: content})
    long = io.BytesIO()
    np.save(long, np.zeros(3_000_000, np.int64))
    yield "run.npz", archive(members | {"token_ids.npy": long.getvalue()})
    yield "run.npz", archive(members | {"more.npy": bytes(10**8)}, zipfile.ZIP_DEFLATED)
    yield "run.npz", archive(members | {"more.npy": bytes(10**6)}, times=400)
    yield "run.npz", archive({f"{n}": b"" for n in range(20_000)})
    tensors = {"token_ids": torch.zeros(2).to(torch.float8_e4m3fn)}
    said = {name: value if isinstance(value, str) else "" for name, value in about.items()}
    for metadata in (None, said, said | {"causal": DEEP}, said | {"model": LONG_NAME}):
        yield "run.safetensors", save(tensors, metadata)
    yield "run.safetensors", join({"__metadata__": 5}, b"")
    yield "run.safetensors", (10**12).to_bytes(8, "little") + b"{}"
    yield "run.safetensors", join(DEEP.encode(), b"")
    yield from unusual("run.npz")
    yield from unusual("run.safetensors")


def pickles() -> Iterator[bytes]:
    """Programs that a pickle can be, each of which would take all time or all memory."""
    nested = b"(K\x01K\x02tq\x00" + b"".join(b"h%ch%c\x86q%c" % (n, n, n + 1) for n in range(90))
    yield PROTO + b"}" + nested + b"Ns" + STOP
    yield (
        PROTO
        + b"c__builtin__\nbytearray\n\x8a\x05"
        + (10**11).to_bytes(5, "little")
        + b"\x85R"
        + STOP
    )
    yield PROTO + b"}r\xff\xff\xff\x7f" + STOP
    yield PROTO + b"]" * 50_000 + b"a" * 49_999 + STOP
    yield PROTO + b"N0" * 200_000 + b"N" + STOP
    yield b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7f" + STOP
    yield b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f" + STOP
    yield b"I" + b"9" * 100_000 + b"\n."
    yield PROTO + b"\x8b\xa0\x86\x01\x00" + b"\x7f" * 100_000 + STOP
    yield PROTO + b"(K\x01i\nno\nmodule\n" + STOP
    yield PROTO + b"cos\nsystem\n" + text("touch PICKLE_RAN") + b"\x85R" + STOP
    yield from (b"", b".", b"}", PROTO + b"s" + STOP, b"\x80\x04\x97" + STOP, b"\x82\x01.")


def torch_files(whole: bytes, old: bytes) -> Iterator[Bad]:
    """What ``torch.save`` didn't write; ``whole`` and ``old`` it did, in both its formats."""
    parts = zipfile.ZipFile(io.BytesIO(whole))
    members = {name: parts.read(name) for name in parts.namelist()}
    home = next(iter(members)).partition("/")[0]
    for program in pickles():
        yield "ckpt.pt", archive({f"{home}/data.pkl": program, f"{home}/data/0": bytes(16)})
        yield "ckpt.pt", program
    yield "ckpt.pt", archive(members | {f"{home}/data/0": bytes(3 * 10**8)}, zipfile.ZIP_DEFLATED)
    yield "ckpt.pt", archive(members | {f"{home}/data/0": bytes(10**6)}, times=400)
    yield "ckpt.pt", archive({"nothing": b""})
    yield "ckpt.pt", archive({f"{home}/data.pkl": members[f"{home}/data.pkl"]})
    count = old.rindex(struct.pack("<q", 24))  # the length of a storage
    yield "ckpt.pt", old[:count] + b"\xff" * 8 + old[count + 8 :]
    yield from unusual("ckpt.pt")


def sessions() -> Iterator[Bad]:
    """What is no session, or one of no model here."""
    for name in (LONG_NAME, "\x00", "/" * 5000, "./" + LONG_NAME, "~nobody/x", "~\x00"):
        yield "session.json", Session("Attention", {"text": "A", "model": name}).to_json().encode()
    yield from (("session.json", content) for content in (b"", b"\xff", DEEP.encode(), b"[]"))
    yield from unusual("session.json")


def unusual(name: str) -> Iterator[Bad]:
    """What is no ordinary file, or none at all."""
    yield name, os.mkfifo
    yield name, Path.mkdir
    yield name, lambda path: path.symlink_to("/dev/zero")
    yield name, lambda path: path.symlink_to(path)
    yield name, lambda path: path.symlink_to("gone")
    yield LONG_NAME + name, lambda path: None


def trainings(folder: Path) -> Iterator[Bad]:
    """A pipe in the place of each file that ``load_steps`` reads of a folder."""
    shutil.copytree(folder / "tiny", folder / "grown")
    (folder / "grown" / "steps").mkdir()
    for name in ("steps/step-2.safetensors", "steps/steps.json", "vocab.json", "config.json"):
        (folder / "grown" / name).unlink(missing_ok=True)
        yield f"grown/{name}", os.mkfifo
    home = folder / "models--some--model"
    (home / "refs").mkdir(parents=True)
    (home / "snapshots").mkdir()
    shutil.copytree(folder / "tiny", home / "snapshots" / "1")
    yield f"{home.name}/refs/step7", os.mkfifo


def read_steps(path: Path) -> None:
    """All checkpoints of the training that a file belongs to."""
    home = next(one for one in path.parents if one.name in ("grown", "models--some--model"))
    snapshot = home / "snapshots" / "1"
    list(gpt2viz.load_steps(snapshot if snapshot.exists() else home).values())


def all_of(folder: Path) -> Iterator[tuple[str, Content, Read]]:
    """Every bad file, with what reads it."""
    model = gpt2viz.load_model(write_checkpoint(folder / "tiny"))
    whole = save_trace(gpt2viz.trace(model, [1, 2]), folder / "whole.npz").read_bytes()
    for name, bad in traces(whole):
        yield name, bad, gpt2viz.load_trace
        yield name, bad, lambda path: gpt2viz.load_trace(path, model)
    for name, bad in sessions():
        yield name, bad, lambda path: run_of(open_session(path))
    weights = {"transformer.ln_f.weight": torch.ones(24)}
    new, old = io.BytesIO(), io.BytesIO()
    torch.save(weights, new)
    torch.save(weights, old, _use_new_zipfile_serialization=False)
    for name, bad in torch_files(new.getvalue(), old.getvalue()):
        yield name, bad, lambda path: convert(path, folder / "made", 4)
    for program in pickles():
        yield "meta.pkl", program, tokens_of
    for name, bad in trainings(folder):
        yield name, bad, read_steps


def fault_of(path: Path, read: Read) -> str | None:
    """What is wrong with how a file was met: "" for nothing, None where it was read."""
    signal.signal(signal.SIGALRM, stop_waiting)
    signal.alarm(SECONDS)
    try:
        read(path)
    except gpt2viz.GPT2VizError as error:
        message = str(error)
        if not message.isprintable() or len(message) > LONGEST:
            return f"no line of plain text: {message!r:.200}"
        return ""
    except BaseException as error:
        return f"{type(error).__name__}: {error!s:.200}"
    finally:
        signal.alarm(0)
    return None


def stop_waiting(*_: Any) -> None:
    """What waits for a pipe is ended."""
    raise TimeoutError(f"not met after {SECONDS} s")


def main(given: Sequence[str] | None = None) -> int:
    """Try all; 1 where one of them wasn't met as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.fuzz.one_by_one")
    parser.add_argument("--limit-mb", type=int, default=500, help="memory that may be added")
    parser.add_argument("--measure", action="store_true")
    arguments = parser.parse_args(given)
    torch.set_num_threads(1)
    now = int(resident("VmData") * 1e6)
    resource.setrlimit(resource.RLIMIT_DATA, (now + arguments.limit_mb * 10**6,) * 2)
    refused, faults, costs = 0, [], []
    with tempfile.TemporaryDirectory() as made:
        for n, (name, content, read) in enumerate(all_of(Path(made))):
            path = Path(made) / name
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                content(path)
            before, started = resident("VmRSS", reset=arguments.measure), time.perf_counter()
            print(f"\r{n} {name[:20]}", end="", file=sys.stderr)
            fault = fault_of(path, read)
            costs.append((time.perf_counter() - started, resident("VmHWM") - before, n))
            refused += fault is not None
            if fault:
                faults.append(f"FAULT {n} {name:.40}: {fault}")
            with suppress(OSError):  # where its name is too long, there is none
                path.rmdir() if path.is_dir() else path.unlink()
    if arguments.measure:
        print("slowest: {:.2f} s, {:.0f} MB ({})".format(*max(costs)))
        print("largest: {1:.0f} MB ({2})".format(*max(costs, key=lambda cost: cost[1])))
    print(*faults, f"{refused} of {n + 1} refused", sep="\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
