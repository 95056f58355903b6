"""The pages' contents."""
