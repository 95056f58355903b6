"""Make the bundled model again: corpus, tokenizer, training, export, evaluation.

These are programs, whose process is their own: tuned before they load torch.
"""

from gpt2viz.model.tuning import tune_process

tune_process()
