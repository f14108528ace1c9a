import sys
from pathlib import Path

# The two-process tests start a script that builds the same tiny things: they stand in a module of their own.
sys.path.insert(0, str(Path(__file__).parent))
