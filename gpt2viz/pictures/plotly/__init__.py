"""Pictures as Plotly figures."""
