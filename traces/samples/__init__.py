"""Bundled traces, all of them synthetic."""
