"""A head score and a page of your own in gpt2viz."""
