"""What models and GPUs are, and what fits into memory. Standard library only."""
