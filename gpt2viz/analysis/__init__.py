"""Numbers computed from a run or from weights: scores of heads, lens, attribution, comparison."""
