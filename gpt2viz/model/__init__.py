"""Models and everything they are read from: network, config, tokenizer, weights, hub."""
