"""A GPT-2 and all that it is read from: network, config, tokenizer, weights, hub."""
