"""Training samples: a session's traces in, rows that a trainer can take out. Pure, and never stored."""
