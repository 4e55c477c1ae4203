"""How long a step takes: models that map a `StepShape` to nanoseconds."""
