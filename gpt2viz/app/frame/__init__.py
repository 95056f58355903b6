"""The frame around every page: menu, sentence, tokens, save, tour."""
