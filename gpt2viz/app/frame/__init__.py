"""What stands round every page: menu, sentence, tokens, save, tour."""
