"""The Textbook page: its chapters, and what they are made of."""
