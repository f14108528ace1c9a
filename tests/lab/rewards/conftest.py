import sys
from pathlib import Path

# The helpers beside the tests are modules.
sys.path.insert(0, str(Path(__file__).parent))
