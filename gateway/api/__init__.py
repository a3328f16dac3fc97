"""`/api`: what trainers and administrators read and change, over FastAPI."""
