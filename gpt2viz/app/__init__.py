"""The pages of the app: frame, components, views, course, caches, the address.

The process of the app is its own, however it was started: tuned before any page loads torch.
"""

from gpt2viz.model.tuning import tune_process

tune_process()
