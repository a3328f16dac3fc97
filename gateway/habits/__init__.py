"""What agents do by habit beside asking a model, and what a session's owner has set for them."""
