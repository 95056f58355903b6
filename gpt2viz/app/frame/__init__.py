"""The frame round every page: menu, sentence, tokens, save, tour."""
