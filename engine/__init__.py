"""The engine; its core is shared with the simulator. Importing this imports nothing else."""
