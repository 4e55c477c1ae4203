"""Puts the helpers of this folder, `random_runs` and `queues`, within reach of its tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
