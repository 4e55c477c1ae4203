"""Studies: several runs of the same load, side by side."""
