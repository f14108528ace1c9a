import sys
import typing
from pathlib import Path

import typing_extensions

sys.path.insert(0, str(Path(__file__).parent))

if sys.version_info < (3, 12):  # what SkyRL wants, and pydantic of its classes
    typing.TypedDict = typing_extensions.TypedDict
