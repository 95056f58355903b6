"""The pages of the app: frame, components, views, course, caches, the address.

However the app is started, it tunes its process before any page loads torch.
"""

from gpt2viz.model.tuning import tune_process

tune_process()
