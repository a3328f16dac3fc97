"""`demo`: a small agent against scripted servers through a real gateway, and what was captured of it."""

from gateway.demo.run import main

__all__ = ["main"]
