"""Several processes as one server: none stays dead, none is left, nobody's text is written down."""
