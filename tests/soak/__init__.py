"""A load test: a class on one server for minutes, with every picture and privacy checked."""
