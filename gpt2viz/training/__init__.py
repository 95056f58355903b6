"""Make the bundled model again: corpus, tokenizer, training, export, evaluation."""
