"""A class at work on one server, for minutes: every picture right, nothing seen of each other."""
