"""Several processes as one server: all are restarted, none is left over, no text is logged."""
