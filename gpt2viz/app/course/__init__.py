"""The Textbook page: its chapters, and the parts that they are built from."""
