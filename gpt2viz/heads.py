"""Scores of every head, for use from Python: ``from gpt2viz.heads import head_scores, probe``."""

from gpt2viz.analysis.scores import (
    SCORES,
    Score,
    WeightOn,
    head_scores,
    probe,
    register_score,
    weight_on,
)
from gpt2viz.analysis.weight_scores import WEIGHT_SCORES, WeightScore, weight_scores

__all__ = [
    "SCORES",
    "WEIGHT_SCORES",
    "Score",
    "WeightOn",
    "WeightScore",
    "head_scores",
    "probe",
    "register_score",
    "weight_on",
    "weight_scores",
]
