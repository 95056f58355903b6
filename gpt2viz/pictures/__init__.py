"""Pictures as values, and their ingredients: panels, palette, pooling, scales, tables."""
