"""Models and all that they are read from: network, config, tokenizer, weights, hub."""
