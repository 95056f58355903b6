"""Numbers made of a run and of weights: scores of heads, lens, attribution, comparison."""
