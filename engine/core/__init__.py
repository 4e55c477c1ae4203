"""The scheduler that engine and simulator share: standard library only, no clock, no tensors."""
