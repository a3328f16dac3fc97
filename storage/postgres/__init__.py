"""PostgreSQL as the store: what it takes to have it, and what its errors mean."""
