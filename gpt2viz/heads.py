"""Scores of every head, for use from Python: ``from gpt2viz.heads import head_scores, probe``."""

from gpt2viz.analysis.scores import SCORES, Score, head_scores, probe, weight_on

__all__ = ["SCORES", "Score", "head_scores", "probe", "weight_on"]
