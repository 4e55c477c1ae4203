"""SimPy actors and what they hand each other."""
