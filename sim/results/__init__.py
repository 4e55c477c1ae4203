"""From the log of a run to numbers, judgement, figures and files."""
