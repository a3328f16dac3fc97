"""Weights that change while agents run: who has which version, and the pauses in which they are changed."""
