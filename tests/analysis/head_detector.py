"""Random heads and TransformerLens' scores of them: rebuilds ``head_detector.json``.

    pip install transformer_lens==4.3.0
    python -m tests.analysis.head_detector

TransformerLens needs too much to be installed for every test run, so its answers are kept. The
heads are random numbers with a seed, and never change.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

#: (seed, T, how many different tokens)
CASES = [(0, 8, 3), (1, 16, 5), (2, 33, 11), (3, 40, 40)]


def random_head(seed: int, n_tokens: int, n_different: int) -> tuple[list[int], np.ndarray]:
    """Token ids (T,), and weights (T, T) under the causal mask whose rows sum to 1."""
    random = np.random.default_rng(seed)
    ids = random.integers(0, n_different, n_tokens).tolist()
    weights = np.tril(random.exponential(size=(n_tokens, n_tokens)) ** 3)
    return ids, (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def main() -> None:
    """Ask TransformerLens for its three scores of every case, by its measure "mul"."""
    import torch
    from transformer_lens import head_detector

    results = []
    for case in CASES:
        ids, weights = random_head(*case)
        scores = {}
        for name in head_detector.HEAD_NAMES:
            pattern = getattr(head_detector, f"get_{name}_detection_pattern")
            scores[name] = head_detector.compute_head_attention_similarity_score(
                torch.tensor(weights),
                pattern(torch.tensor([ids])),
                exclude_bos=False,
                exclude_current_token=False,
                error_measure="mul",
            )
        results.append(scores)
    made = {"made by": f"{Path(__file__).name}, transformer_lens {version('transformer_lens')}"}
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(made | {"scores": results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
