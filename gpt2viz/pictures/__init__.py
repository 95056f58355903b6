"""Pictures as values, and what they are made of: panels, palette, pooling, scales, tables."""
