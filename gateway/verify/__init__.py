"""`verify`: asks one inference server directly, and says what the gateway would capture from it."""

from gateway.verify.run import main

__all__ = ["main"]
