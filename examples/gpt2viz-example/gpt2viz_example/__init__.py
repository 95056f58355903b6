"""A head score, an edit and a page of your own in gpt2viz."""
