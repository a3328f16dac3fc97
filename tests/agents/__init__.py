"""Real agent programs, from PyPI and npm, run to their end through a gateway: see `__main__`."""
