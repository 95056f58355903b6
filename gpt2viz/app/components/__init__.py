"""Pictures that are drawn in the browser by scripts of our own."""
