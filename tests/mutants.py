"""Plant one fault at a time in a copy of the package, and demand that the named test turns red.

    python -m tests.mutants

Every invariant (rows sum to 1, zeros above the diagonal) also holds for a wrong scale, so the
numbers are compared with independent oracles; this shows that the comparison bites.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
NUMPY = "tests/parity/test_parity.py::test_every_stage_equals_numpy"
THEIRS = "tests/parity/test_parity.py::test_equals_transformers"
TRACING = "tests/unit/test_tracing.py::"
EDITS = "tests/parity/test_edits.py::test_every_edit_equals_transformers"
TOKENIZER = "tests/unit/test_tokenizer.py::"


class Mutant(NamedTuple):
    """A fault: in ``file``, ``right`` becomes ``wrong``; ``test`` must notice."""

    name: str
    file: str
    right: str
    wrong: str
    test: str


MUTANTS = (
    Mutant("scale 1/hs", "model.py", "scores / math.sqrt(hs)", "scores / hs", NUMPY),
    Mutant("no scale", "model.py", "scores / math.sqrt(hs)", "scores / 1", NUMPY),
    Mutant("scores transposed", "model.py", "q @ k.transpose(-2, -1)", "k @ q.mT", NUMPY),
    Mutant("mask hides oneself", "model.py", "triu(diagonal=1)", "triu(diagonal=0)", NUMPY),
    Mutant("mask shows the next", "model.py", "triu(diagonal=1)", "triu(diagonal=2)", NUMPY),
    Mutant("mask never off", "model.py", "future if causal else", "future if True else", NUMPY),
    Mutant("softmax by column", "model.py", "softmax(masked, dim=-1)", "softmax(masked, 2)", NUMPY),
    Mutant("q and k swapped", "model.py", "q, k, v = self.c_attn", "k, q, v = self.c_attn", NUMPY),
    Mutant(
        "heads cut the wrong way",
        "model.py",
        "x.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)",
        "x.view(B, self.n_head, T, C // self.n_head)",
        NUMPY,
    ),
    Mutant("heads merged unturned", "model.py", "y.transpose(1, 2).reshape", "y.reshape", THEIRS),
    Mutant("positions from 1", "model.py", "arange(T, device", "arange(1, T + 1, device", THEIRS),
    Mutant("no norm before MLP", "model.py", "normed = self.ln_2(x)", "normed = x", THEIRS),
    Mutant("gelus swapped", "model.py", '"gelu": nn.GELU', '"gelu": GELUTanh', THEIRS),
    Mutant("no norm before attention", "model.py", "normed = self.ln_1(x)", "normed = x", THEIRS),
    Mutant(
        "attention adds no stream", "model.py", "x + self.attn(normed", "self.attn(normed", THEIRS
    ),
    Mutant(
        "square matrix not turned",
        "checkpoint.py",
        '"attn.c_proj.weight", "mlp.c_fc.weight"',
        '"mlp.c_fc.weight"',
        THEIRS,
    ),
    Mutant(
        "no lock",
        "tracing.py",
        "_TURN = threading.Lock()",
        "from contextlib import nullcontext; _TURN = nullcontext()",
        TRACING + "test_eight_threads_on_one_model_get_what_one_thread_gets",
    ),
    Mutant(
        "floats cut to ids",
        "tracing.py",
        "operator.index(value)",
        "int(value)",
        TRACING + "test_what_cannot_be_run",
    ),
    Mutant(
        "parameters counted twice",
        "tracing.py",
        "seen.update(own)",
        "pass",
        TRACING + "test_the_shape_table_is_what_ran",
    ),
    Mutant(
        "hooks stay after an error",
        "tracing.py",
        "hooks.callback(module.register_forward_hook(hook).remove)",
        "module.register_forward_hook(hook)",
        TRACING + "test_no_hook_is_left_behind",
    ),
    Mutant(
        "arrays can be written",
        "tracing.py",
        "array.flags.writeable = False",
        "pass",
        TRACING + "test_arrays_are_read_only_float32_with_the_declared_shape",
    ),
    Mutant("derived with the mask", "traces.py", "q, k, v, self.causal", "q, k, v, True", NUMPY),
    Mutant("fused with the mask", "model.py", "is_causal=causal", "is_causal=True", NUMPY),
    Mutant(
        "derived without the edits",
        "traces.py",
        "self.causal, self.forbidden, keys)",
        "self.causal, None, keys)",
        EDITS,
    ),
    Mutant("fused without the edits", "model.py", "attn_mask=seen", "attn_mask=None", EDITS),
    Mutant(
        "scaled twice",
        "interventions.py",
        "*= edit.factor or 0.0",
        "*= (edit.factor or 0.0) ** 2",
        EDITS,
    ),
    Mutant(
        "another head is off",
        "interventions.py",
        "changed[:, edit.head] *",
        "changed[:, 0] *",
        EDITS,
    ),
    Mutant("window one too wide", "edits.py", ">= (edit.width or 1)", "> (edit.width or 1)", EDITS),
    Mutant(
        "edits stay in the model",
        "tracing.py",
        "hooks.callback(handle.remove)",
        "pass",
        "tests/unit/test_edits.py::test_the_next_run_knows_nothing_of_it",
    ),
    Mutant(
        "sizes unchecked",
        "checkpoint.py",
        "if found.size != size:",
        "if False:",
        "tests/unit/test_checkpoint.py::test_wrong_tensors",
    ),
    Mutant(
        "any integer is a weight",
        "checkpoint.py",
        'startswith(("F", "BF"))',
        'startswith("")',
        "tests/unit/test_checkpoint.py::test_wrong_tensors",
    ),
    Mutant(
        "only 0 to 9 are numbers",
        "tokenizer.py",
        r" ?\p{N}++",
        " ?[0-9]++",
        TOKENIZER + "test_every_character_is_cut_off_where_hugging_face_cuts",
    ),
    Mutant(
        "ids taken for ranks",
        "tokenizer.py",
        "for left, right in merges:\n            part",
        "for left, right in sorted(merges, key=lambda m: vocab[m[0] + m[1]]):\n            part",
        TOKENIZER + "test_ids_that_do_not_follow_the_merges",
    ),
    Mutant(
        "specials are read from text",
        "tokenizer.py",
        "self._encoding.encode_ordinary(text)",
        'self._encoding.encode_ordinary(text.replace("<|endoftext|>", ""))',
        TOKENIZER + "test_ids_equal_hugging_faces",
    ),
    Mutant(
        "two tokens, one label",
        "labels.py",
        'SPACE: r"\\u00b7", ',
        "",
        "tests/unit/test_labels.py::test_two_tokens_never_share_a_label",
    ),
)


def planted(mutant: Mutant, copy: Path) -> Path:
    """The file in the copy, with the fault in it. Raises ``ValueError`` where it has no place."""
    path = copy / "gpt2viz" / mutant.file
    source = path.read_text(encoding="utf-8")
    if source.count(mutant.right) != 1:
        raise ValueError(f"{mutant.name}: {mutant.right!r} must stand once in {mutant.file}")
    path.write_text(source.replace(mutant.right, mutant.wrong), encoding="utf-8")
    return path


def exit_code(tests: Iterable[str]) -> tuple[int, str]:
    """Run tests on the copy in the working folder: pytest's code and what it printed.

    All in this process, with the package loaded anew: loading torch each time would take longer
    than the tests do.
    """
    for name in list(sys.modules):
        if name.split(".")[0] in ("gpt2viz", "tests"):
            del sys.modules[name]
    with redirect_stdout(StringIO()) as printed:
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])
    return int(code), printed.getvalue()


def turns_red(mutant: Mutant) -> bool:
    """Whether the test fails. One that can't be found or collected is an error, not red."""
    code, printed = exit_code([mutant.test])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"{mutant.name}: the test did not run\n{printed}")
    return code == pytest.ExitCode.TESTS_FAILED


def main() -> int:
    """Try every mutant; 0 where each one was noticed."""
    survived = 0
    sys.dont_write_bytecode = True  # two mutants of one length within a second look alike to it
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        copy = Path(folder)
        sys.path.insert(0, folder)
        for name in ("gpt2viz", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        code, printed = exit_code(sorted({mutant.test for mutant in MUTANTS}))
        if code:
            print(f"{printed}\nThe tests must pass before a fault is planted.")
            return 1
        for mutant in MUTANTS:
            path = planted(mutant, copy)
            red = turns_red(mutant)
            survived += not red
            verdict = "noticed" if red else "SURVIVED"
            print(f"{mutant.name:28} {verdict:9} {mutant.test.split('::')[-1]}", flush=True)
            shutil.copy(ROOT / "gpt2viz" / mutant.file, path)
    print(f"mutants: {len(MUTANTS) - survived} noticed, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
