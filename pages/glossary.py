"""Glossary: what the words mean, where they are used, and where they come from."""

from gpt2viz.app.views import glossary

glossary.show()
