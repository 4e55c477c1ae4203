"""Prints the simulator's speed: `make bench`. Figures are processor time on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import step_cost


def main() -> None:
    """Run all benchmarks and print a line for each figure."""
    for running in step_cost.RUNNING:
        print(running, step_cost.decode_only(running).us_per_step)
    for named in (False, True):
        print(named, step_cost.apart(named=named))


if __name__ == "__main__":
    main()
