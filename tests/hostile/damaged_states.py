"""Files of hidden states that are none, or not those of 48 rollouts: made by hand, header by header."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import numpy as np

ROWS, WIDTH = 48, 4
_DATA = np.zeros((ROWS, WIDTH), "<f4").tobytes()


def npy(descr: Any = "<f4", shape: Any = (ROWS, WIDTH), data: bytes = _DATA, *, header: str | None = None) -> bytes:
    """A .npy file whose header says what is given, whatever the data are."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}) if header is None else header
    text += " " * (64 - (len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin1") + data


def tensors(header: Any, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A safetensors file with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def one_tensor(dtype: str, width: int, shape: Any = (ROWS, WIDTH)) -> bytes:
    size = ROWS * WIDTH * width
    return tensors({"hidden": {"dtype": dtype, "shape": list(shape), "data_offsets": [0, size]}}, b"\0" * size)


def _archive() -> bytes:
    file = io.BytesIO()
    np.savez(file, hidden=np.zeros((ROWS, WIDTH)))
    return file.getvalue()


def _with(values: float) -> bytes:
    array = np.ones((ROWS, WIDTH), "<f4")
    array[5] = values
    return npy(data=array.tobytes())


def _byte(place: int) -> dict[str, Any]:
    return {"dtype": "U8", "shape": [1], "data_offsets": [place, place + 1]}


def bad_files() -> dict[str, bytes]:
    """File name -> bytes, of files that are to be refused."""
    arrays = {
        "archive": _archive(), "empty": b"", "pickle": b"\x80\x04K\x01.", "big-endian": npy(">f4"),
        "objects": npy("|O"), "a billion rows": npy(shape=(10**9, WIDTH)), "overflow": npy(shape=(2**62, 2**62)),
        "records": npy([("a", "<f4")]), "unknown type": npy("zzz"), "whole": npy("<i4"), "one number": npy(shape=()),
        "fewer": npy(shape=(ROWS - 1, WIDTH)), "cut": npy()[:-100], "brackets": npy(header="(" * 5000),
        "other keys": npy(header="{'a': 1}"), "indented": npy(header=" {\n  x"),
        "long header": b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"x" * 100, "NaN": _with(float("nan")),
    }  # fmt: skip
    sound = {"dtype": "F32", "shape": [ROWS, WIDTH], "data_offsets": [0, len(_DATA)]}
    kept = {
        "billion": one_tensor("F32", 4, (10**9, WIDTH)), "length": tensors({}, length=2**63), "no JSON": tensors(b"{"),
        "deep": tensors(b'{"a":' * 50_000), "no UTF-8": tensors(b'{"\xff": 1}'), "none": tensors({}),
        "two": tensors({"a": sound, "b": sound}, _DATA), "cut": tensors({"hidden": sound}, _DATA[:-1]),
        "many": tensors({f"a\x1b[2J{n}": _byte(n) for n in range(999)}, b"x" * 999),
        "codes": one_tensor("F8_E4M3", 1), "unknown": one_tensor("XX", 4),
    }  # fmt: skip
    return {f"{name}.npy": data for name, data in arrays.items()} | {
        f"{name}.safetensors": data for name, data in kept.items()
    }
