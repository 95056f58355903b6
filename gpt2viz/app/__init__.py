"""What the pages share: frame, widgets, address, caches. The only package that uses Streamlit."""
