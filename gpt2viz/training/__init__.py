"""Reproduce the bundled model: corpus, tokenizer, training, export, evaluation.

These are programs, so they tune their own process before they load torch.
"""

from gpt2viz.model.tuning import tune_process

tune_process()
