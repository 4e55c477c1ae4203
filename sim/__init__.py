"""The simulator: scenarios, the SimPy world, step times, results."""
