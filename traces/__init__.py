"""Traces: what was asked of a server, read from files or made up.

trace = load("trace.csv")        recognises the format
trace = load("azure_conv_like")  a bundled sample
"""

from pagecast.traces.formats import load, sample_names, sample_path

__all__ = ["load", "sample_names", "sample_path"]
