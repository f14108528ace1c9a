import sys
import typing

import typing_extensions

if sys.version_info < (3, 12):  # what SkyRL wants, and pydantic of its classes
    typing.TypedDict = typing_extensions.TypedDict
