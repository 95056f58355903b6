"""The Models page: what can be loaded, and one model's parts."""
