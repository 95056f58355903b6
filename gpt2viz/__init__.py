"""See how a GPT-2 reads a sentence: run it once, look at every tensor of every attention head.

model = gpt2viz.load_model()
trace = gpt2viz.trace(model, "A crane ate fish")
trace.stage("weights", layer=3)  # (B, nh, T, T)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpt2viz.analysis.sampling import divergence, entropy, sampling_distribution, surprise
from gpt2viz.analysis.words import group_words, word_starts
from gpt2viz.errors import (
    ArgumentError,
    AttentionError,
    CheckpointError,
    ContextError,
    DeviceError,
    EditError,
    ExportError,
    GPT2VizError,
    HubError,
    MissingExtraError,
    PatchError,
    PlaceError,
    PluginError,
    StageError,
    SurveyError,
    TextError,
    TooLargeError,
)
from gpt2viz.extras import lazy_names
from gpt2viz.model.config import GPT2Config, LlamaConfig, ModelConfig
from gpt2viz.model.tuning import Tuning, tune_process
from gpt2viz.run.edit_kinds import EditKind, register_edit
from gpt2viz.run.edits import Edit, parse_edits
from gpt2viz.run.stages import HEAD_STAGES, STAGE, STAGES, HeadStageName, Stage, StageName
from gpt2viz.run.trace import NextToken, TensorRecord, Trace
from gpt2viz.settings import BUNDLED

if TYPE_CHECKING:
    from gpt2viz.analysis.circuits import HeadCircuit, head_circuit
    from gpt2viz.analysis.composition import Composition, VirtualHead, composition, virtual_head
    from gpt2viz.analysis.direct_paths import PatchedPath, PathSweep, patch_path, patch_paths
    from gpt2viz.analysis.explanation import (
        RowExplanation,
        ScoreExplanation,
        explain_row,
        explain_score,
    )
    from gpt2viz.analysis.fewest_heads import FewestHeads, fewest_heads
    from gpt2viz.analysis.generation import Choice, generate
    from gpt2viz.analysis.lens import (
        Contributions,
        LogitLens,
        Route,
        contributions,
        logit_lens,
        route,
    )
    from gpt2viz.analysis.patching import PatchSweep, patch_estimate, patch_sweep
    from gpt2viz.analysis.reasons import Reason, reason
    from gpt2viz.model.checkpoint import Model, load_model
    from gpt2viz.model.from_transformers import from_transformers
    from gpt2viz.model.steps import Steps, load_steps
    from gpt2viz.notebook.live_page import write_page
    from gpt2viz.notebook.show import show
    from gpt2viz.notebook.view import AttentionView
    from gpt2viz.run.means import MeanReference
    from gpt2viz.run.saved import load_trace
    from gpt2viz.run.tracer import mean_reference, trace, trace_many
    from gpt2viz.run.watch import Watched, watch
    from gpt2viz.survey.changes import Changes, compare_models

# The modules of names that need torch, which takes two seconds to load, and so are loaded on first
# use: the command's --help and a mere ``import gpt2viz`` don't wait for it.
_LATER = {
    "analysis.circuits": ("HeadCircuit", "head_circuit"),
    "analysis.composition": ("Composition", "VirtualHead", "composition", "virtual_head"),
    "analysis.direct_paths": ("PatchedPath", "PathSweep", "patch_path", "patch_paths"),
    "analysis.explanation": ("RowExplanation", "ScoreExplanation", "explain_row", "explain_score"),
    "analysis.fewest_heads": ("FewestHeads", "fewest_heads"),
    "analysis.generation": ("Choice", "generate"),
    "analysis.lens": (
        "Contributions",
        "LogitLens",
        "Route",
        "contributions",
        "logit_lens",
        "route",
    ),
    "analysis.patching": ("PatchSweep", "patch_estimate", "patch_sweep"),
    "analysis.reasons": ("Reason", "reason"),
    "export": ("export",),
    "heads": ("heads",),
    "model.checkpoint": ("Model", "load_model"),
    "model.from_transformers": ("from_transformers",),
    "model.steps": ("Steps", "load_steps"),
    "notebook.live_page": ("write_page",),
    "notebook.show": ("show",),
    "notebook.view": ("AttentionView",),
    "offline": ("offline",),
    "run.means": ("MeanReference",),
    "run.saved": ("load_trace",),
    "run.tracer": ("mean_reference", "trace", "trace_many"),
    "run.watch": ("Watched", "watch"),
    "survey.changes": ("Changes", "compare_models"),
}

__version__ = "0.1.0"

__all__ = [
    "BUNDLED",
    "HEAD_STAGES",
    "STAGE",
    "STAGES",
    "ArgumentError",
    "AttentionError",
    "AttentionView",
    "Changes",
    "CheckpointError",
    "Choice",
    "Composition",
    "ContextError",
    "Contributions",
    "DeviceError",
    "Edit",
    "EditError",
    "EditKind",
    "ExportError",
    "FewestHeads",
    "GPT2Config",
    "GPT2VizError",
    "HeadCircuit",
    "HeadStageName",
    "HubError",
    "LlamaConfig",
    "LogitLens",
    "MeanReference",
    "MissingExtraError",
    "Model",
    "ModelConfig",
    "NextToken",
    "PatchError",
    "PatchSweep",
    "PatchedPath",
    "PathSweep",
    "PlaceError",
    "PluginError",
    "Reason",
    "Route",
    "RowExplanation",
    "ScoreExplanation",
    "Stage",
    "StageError",
    "StageName",
    "Steps",
    "SurveyError",
    "TensorRecord",
    "TextError",
    "TooLargeError",
    "Trace",
    "Tuning",
    "VirtualHead",
    "Watched",
    "compare_models",
    "composition",
    "contributions",
    "divergence",
    "entropy",
    "explain_row",
    "explain_score",
    "fewest_heads",
    "from_transformers",
    "generate",
    "group_words",
    "head_circuit",
    "load_model",
    "load_steps",
    "load_trace",
    "logit_lens",
    "mean_reference",
    "parse_edits",
    "patch_estimate",
    "patch_path",
    "patch_paths",
    "patch_sweep",
    "reason",
    "register_edit",
    "route",
    "sampling_distribution",
    "show",
    "surprise",
    "trace",
    "trace_many",
    "tune_process",
    "virtual_head",
    "watch",
    "word_starts",
    "write_page",
]

__getattr__, __dir__ = lazy_names(__name__, _LATER, [*__all__, "__version__"])
