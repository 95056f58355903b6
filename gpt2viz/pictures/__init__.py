"""Pictures: arrays in, a Plotly figure out. Nothing here runs a model or knows of a page."""
