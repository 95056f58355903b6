"""Panels, palette, pooling, scales, tables: arrays in, values out. Nothing here runs a model."""
