"""See how a GPT-2 reads a sentence: run it once, look at every tensor of every attention head.

model = gpt2viz.load_model()
trace = gpt2viz.trace(model, "A crane ate fish")
trace.stage("weights", layer=3)  # (B, nh, T, T)
"""

from gpt2viz import threads as threads  # first: sets how threads wait, before torch loads
from gpt2viz.checkpoint import BUNDLED, Model, load_model
from gpt2viz.config import GPT2Config
from gpt2viz.edits import Edit, parse_edits
from gpt2viz.errors import (
    CheckpointError,
    ContextError,
    EditError,
    ExportError,
    GPT2VizError,
    TextError,
    TooLargeError,
)
from gpt2viz.generation import Choice, generate
from gpt2viz.lens import Contributions, LogitLens, contributions, logit_lens
from gpt2viz.predictions import divergence, entropy, sampling_distribution, surprise
from gpt2viz.stages import HEAD_STAGES, STAGE, STAGES, Stage
from gpt2viz.traces import TensorRecord, Trace
from gpt2viz.tracing import trace
from gpt2viz.words import group_words, word_starts

__version__ = "0.1.0"

__all__ = [
    "BUNDLED",
    "HEAD_STAGES",
    "STAGE",
    "STAGES",
    "CheckpointError",
    "Choice",
    "ContextError",
    "Contributions",
    "Edit",
    "EditError",
    "ExportError",
    "GPT2Config",
    "GPT2VizError",
    "LogitLens",
    "Model",
    "Stage",
    "TensorRecord",
    "TextError",
    "TooLargeError",
    "Trace",
    "contributions",
    "divergence",
    "entropy",
    "generate",
    "group_words",
    "load_model",
    "logit_lens",
    "parse_edits",
    "sampling_distribution",
    "surprise",
    "trace",
    "word_starts",
]
