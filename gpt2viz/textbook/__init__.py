"""The worked examples of five introductions to GPT-2, computed here: small modules to read.

Each example has an id, E1 to E26 (``gpt2viz.textbook.examples``). The results that a text prints
are compared with those that this code computes (``gpt2viz.textbook.claims``).
"""
