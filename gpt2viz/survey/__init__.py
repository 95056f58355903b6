"""Every head's scores across many texts: shards in, partial sums out, merged in any order."""

from importlib import import_module

from gpt2viz.extras import needed

with needed("gpt2viz.survey", "survey"):
    for _name in ("pyarrow", "scipy.special"):
        import_module(_name)
