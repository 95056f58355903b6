"""``python -m tests.package.bare``: gpt2viz after a plain ``pip install`` or with one extra alone.

Prints in JSON, for each extra of pyproject.toml and for none (""), the outcome of every line of
``COMMANDS`` and ``PYTHON``; lines that need no extra run only with none. Modules that the extra
doesn't bring are hidden from that process, so that nothing has to be installed.
"""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import distribution, packages_distributions
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.package.licences import closure, dependencies, extras

#: Command lines of ``gpt2viz``, by the extra that each needs; "" needs none.
COMMANDS = {
    "": (
        "models",
        "models --json",
        "trace 'A crane' -m tiny",
        "trace 'A crane' --json -m tiny",
        "trace 'A crane' --stage residual_out --layer 1 -m tiny",
        "trace 'A crane' --out run.npz --out run.safetensors --out weights.json -m tiny",
        "trace 'A crane' --edits mean:0.1 --mean-over texts.txt --json -m tiny",
        "trace 'A crane' --out weights.svg --width 8.5cm -m tiny",
        "why 'A crane ate' --layer 1 -m tiny",
        "why 'A crane ate' --layer 1 --json -m tiny",
        "surprise 'A crane' -m tiny",
        "surprise 'A crane' --json -m tiny",
        "lens 'A crane' -m tiny",
        "lens 'A crane' --json -m tiny",
        "contributions 'A crane' -m tiny",
        "contributions 'A crane' --json -m tiny",
        "route 'A crane' -m tiny",
        "fewest Aq Az -m tiny",
        "fewest Aq Az --mean-over texts.txt --json -m tiny",
        "generate 'A crane' --tokens 1 -m tiny",
        "shapes 'A crane' -m tiny",
        "page Aq -m tiny --out page.html",
        "shapes 'A crane' --json -m tiny",
        "fetch owner/name",
        "convert ckpt.pt mine",
    ),
    "notebook": (
        "trace 'A crane' --out weights.html -m tiny",
        "trace 'A crane' --out weights.csv -m tiny",
        "why 'A crane ate' --out parts.html -m tiny",
        "why 'A crane ate' --out parts.csv -m tiny",
        "shapes 'A crane' --out shapes.csv -m tiny",
    ),
    "export": (
        "trace 'A crane' --out weights.pdf --width 8.5cm -m tiny",
        "trace 'A crane' --out weights.parquet -m tiny",
        "why 'A crane ate' --out parts.pdf -m tiny",
        "why 'A crane ate' --out parts.parquet -m tiny",
        "shapes 'A crane' --out shapes.parquet -m tiny",
    ),
    "survey": (
        "heads --corpus texts.txt --tokens 8 --workers 1 -m tiny",
        "changes tiny tiny --corpus texts.txt --tokens 8 --workers 1",
    ),
    "ray": ("heads --corpus texts.txt --engine ray --address 127.0.0.1:1 -m tiny",),
    # Nobody can listen on that address, which is reserved for documentation (RFC 5737).
    "app": ("app --host 192.0.2.1", "serve --host 192.0.2.1"),
}
#: Lines of Python, by the extra that each needs.
PYTHON = {
    "": (
        "gpt2viz.load_model()",
        "gpt2viz.from_transformers",
        "gpt2viz.watch",
        "gpt2viz.trace(model, 'A crane')",
        "gpt2viz.trace_many(model, ['A crane'])",
        "gpt2viz.load_steps()",
        "gpt2viz.tune_process()",
        "gpt2viz.surprise(trace)",
        "gpt2viz.entropy(trace.next_token_probabilities[0])",
        "gpt2viz.divergence(*trace.next_token_probabilities[[0, 0]])",
        "gpt2viz.sampling_distribution(trace.logits_at(-1))",
        "list(gpt2viz.generate(model, 'A crane', 1))",
        "gpt2viz.logit_lens(model, trace)",
        "gpt2viz.contributions(model, trace, 11)",
        "gpt2viz.route(model, trace, 11)",
        "gpt2viz.explain_row(model, trace, 1, 1, 1)",
        "gpt2viz.explain_score(model, trace, 1, 1, 1, 0)",
        "gpt2viz.reason(row, 0)._repr_mimebundle_()",
        "gpt2viz.head_circuit(tiny, 0, 0)",
        "gpt2viz.write_page(tiny, 'page.html', 'Aq')",
        "gpt2viz.composition(tiny)",
        "gpt2viz.virtual_head(tiny, (0, 0), (1, 0))",
        "gpt2viz.patch_sweep(tiny, [1, 2, 3], [1, 4, 3], answer=(5, 6))",
        "gpt2viz.patch_estimate(tiny, [1, 2, 3], [1, 4, 3], answer=(5, 6))",
        "gpt2viz.patch_path(tiny, [1, 2, 3], [1, 4, 3], (0, 0), (1, 0), 'v', (5, 6))",
        "gpt2viz.patch_paths(tiny, [1, 2, 3], [1, 4, 3], (1, 0), (5, 6))",
        "gpt2viz.fewest_heads(tiny, [1, 2, 3], [1, 4, 3], (5, 6))",
        "gpt2viz.parse_edits('off:1.3')",
        "gpt2viz.register_edit(gpt2viz.EditKind('same', 'changes nothing', lambda heads: heads))",
        "tracer.reference_run(tiny)",
        "gpt2viz.mean_reference(tiny, ['A cat'])",
        "kv_cache.cache_bytes(kv_cache.last_token_alone(model, trace))",
        "kv_cache.held_tokens(kv_cache.evictions(4, 1).popitem()[1], 9)",
        "cost.products(trace)",
        "cost.products_of(trace.tensors, model.config)",
        "heads.head_scores(trace)",
        "heads.probe(100, 20)",
        "heads.weight_on(trace.stage('weights', 0)[0], trace.stage('weights', 0)[0, 0] > 0.5)",
        "heads.register_score",
        "heads.weight_scores(tiny)",
        "engines.local(1)",
        "stored.read_survey(gpt2viz.BUNDLED, model.weight_files, 4, 8)",
        "gpt2viz.group_words(trace.stage('weights', 0)[0, 0], gpt2viz.word_starts([b'A'] * 4))",
        "gpt2viz.load_trace(export.save_trace(trace, 'run.npz'))",
        "gpt2viz.show(trace).save('attention.html')",
        "trace._repr_mimebundle_()",
        "convert.convert(Path('ckpt.pt'), Path('again'))",
        "export.file_name(export.about(trace, 'weights'), 'svg')",
        "export.about_runs([trace, trace], 'weights')",
        "export.trace_bytes(trace, 'safetensors')",
        "export.pixels('8.5cm')",
        "export.prints(picture)",
        "export.alt_text(picture)",
        "export.figure_bytes(picture, 'svg')",
        "export.draw_card",
        "export.sheet_of(picture)",
        "export.read_session(export.Session('attention', {'text': 'A'}).to_json().encode())",
        "program('gpt2viz.training', '--corpus', 'texts.txt', '--out', 'out')",
        "program('gpt2viz.training.steps', *'--corpus no --run no --model tiny'.split())",
    ),
    "notebook": (
        "trace.heatmap(0, 0)",
        "trace.heads(0)",
        "trace.overview()",
        "trace.table(0, 0)",
        "gpt2viz.reason(row, 0).heatmap()",
        "offline.offline()",
        "export.figure_table(picture)",
        "export.page_html([('parts', picture)])",
        "export.save_page('page.html', [('parts', picture)])",
        "export.save_figure(picture, 'parts.html')",
        "export.save_table(trace.table(0, 0), 'head.csv')",
    ),
    "export": (
        "export.figure_bytes(picture, 'png')",
        "export.table_bytes(table, 'parquet')",
    ),
    "gguf": ("gpt2viz.load_model('tiny.gguf')",),
    "widget": ("gpt2viz.show(trace).selected", "gpt2viz.show(trace).clicks"),
    "survey": (
        "run.survey(Path('texts.txt'), Path('tiny'), Path('out'), 8, 'cpu', engines.local(1))",
        "gpt2viz.compare_models('tiny', 'tiny', Path('texts.txt'), n_tokens=8)",
    ),
    "ray": ("engines.on_ray(1, None)",),
}
#: The modules, by the names that those lines use.
MODULES = {
    "convert": "gpt2viz.model.convert",
    "cost": "gpt2viz.anatomy.cost",
    "engines": "gpt2viz.survey.engines",
    "export": "gpt2viz.export",
    "heads": "gpt2viz.heads",
    "kv_cache": "gpt2viz.anatomy.kv_cache",
    "offline": "gpt2viz.offline",
    "run": "gpt2viz.survey.run",
    "stored": "gpt2viz.survey.stored",
    "tracer": "gpt2viz.run.tracer",
}
#: Errors of lines that have all their packages, but no network, cluster, browser or file.
EXPECTED = re.compile(
    r"No connection to|No Ray cluster answers|can't be used: Cannot assign|is for notebooks"
    r"|Missing here: Chromium"
    r"|No such file or directory|the text gives only|needs the program caddy|needs Linux"
)


class Hiding(PathFinder):
    """Finds installed modules, except those that are ``hidden``."""

    hidden: frozenset[str] = frozenset()
    site = Path(str(distribution("click").locate_file("")))

    @classmethod
    def find_spec(cls, fullname: str, *rest: Any, **named: Any) -> ModuleSpec | None:
        """The specification of a module; None for a hidden one, unless it is another's own copy."""
        spec = super().find_spec(fullname, *rest, **named)
        if spec is None or fullname not in cls.hidden:
            return spec
        file = Path(spec.origin or next(iter(spec.submodule_search_locations or ())))
        return None if cls.site in file.parents[:2] else spec


_owners = cache(packages_distributions)


def hide_all_but(*expected: str, also: Iterable[str] = ()) -> None:
    """Hide all installed packages but those that these extras, and ``also``, bring."""
    allowed = {"gpt2viz", *closure(*expected), *dependencies(map(Requirement, also))}
    owners = _owners()
    hidden = {n for n, by in owners.items() if not allowed & set(map(canonicalize_name, by))}
    loaded = hidden & sys.modules.keys() - {"colorama"}  # tqdm imports it if it is installed
    assert not loaded, f"already loaded, whatever is installed: {loaded}"
    Hiding.hidden = frozenset(hidden)
    sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding


def command(line: str) -> str:
    """Run a command line: its stderr if it fails, "" if it succeeds."""
    from click.testing import CliRunner

    from gpt2viz.cli import main

    result = CliRunner().invoke(main, shlex.split(line), prog_name="gpt2viz")
    if isinstance(result.exception, SystemExit | None):
        return result.stderr if result.exit_code else ""
    return repr(result.exception)


def program(module: str, *arguments: str) -> None:
    """Run ``python -m module``. Raises its errors and ``SystemExit``."""
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


class Names(dict[str, Any]):
    """The objects that the lines of ``PYTHON`` use; modules are imported on first use."""

    def __missing__(self, name: str) -> Any:
        if name not in MODULES:
            raise KeyError(name)
        return import_module(MODULES[name])


def names() -> Names:
    """A run of the bundled model, a tiny one, and the modules."""
    import gpt2viz
    from gpt2viz.pictures.explanation import reason_map

    model = gpt2viz.load_model()
    trace = gpt2viz.trace(model, "A crane ate fish")
    row = gpt2viz.explain_row(model, trace, 1, 1, 3)
    tiny = gpt2viz.load_model("tiny")
    own = {"gpt2viz": gpt2viz, "program": program, "Path": Path}
    picture = reason_map(gpt2viz.reason(row, 0))
    made = Names(own, model=model, trace=trace, row=row, picture=picture, tiny=tiny, table=None)
    with suppress(gpt2viz.MissingExtraError):
        made["table"] = picture.table()
    return made


def python(line: str, space: Names) -> str:
    """Run a line of Python: the text of its error, "" without one."""
    from gpt2viz import GPT2VizError

    try:
        eval(line, {}, space)  # noqa: S307 (ours)
    except (GPT2VizError, SystemExit) as error:
        return str(error)
    except Exception as error:
        return repr(error)
    return ""


def outcomes(extra: str, folder: Path) -> dict[str, str]:
    """The error of each line with that extra alone; "" if no package is missing."""
    hide_all_but(*filter(None, [extra]))
    plain = not extra
    from gpt2viz import cli

    with tempfile.TemporaryDirectory() as own, redirect_stdout(StringIO()):
        shutil.copytree(folder, own, dirs_exist_ok=True)
        with chdir(own), redirect_stderr(StringIO()):
            space = names()
            lines, code = (
                [line for need, them in table.items() if need or plain for line in them]
                for table in (COMMANDS, PYTHON)
            )
            helps = [f"{name} --help" for name in cli.COMMANDS] if plain else []
            words = {line: command(line) for line in [*helps, *lines]}
            words |= {line: python(line, space) for line in code}
    return {line: "" if EXPECTED.search(text) else text for line, text in words.items()}


if __name__ == "__main__":
    import gpt2viz

    gpt2viz.load_model()  # imports torch, once for all processes
    import_module("torch.optim")
    import_module("huggingface_hub.hf_api")
    _owners()
    every = ("", *extras())
    with get_context("fork").Pool(2, maxtasksperchild=1) as pool:
        answers = pool.starmap(outcomes, [(e, Path(sys.argv[1])) for e in every], chunksize=1)
    print(json.dumps(dict(zip(every, answers, strict=True))))
