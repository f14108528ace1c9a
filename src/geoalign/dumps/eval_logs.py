"""The samples of an Inspect log in its `.eval` form, a zip archive with a file of JSON for each sample.

After github.com/UKGovernmentBEIS/inspect_ai at 499e615: src/inspect_ai/log/_recorders/eval.py names the files,
_recorders/chunked/format.py those of large samples, and _util/zipfile.py packs them by zstd; older logs by deflate.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from geoalign.dumps import raw_rows
from geoalign.dumps.raw_rows import RawRow
from geoalign.text import one_line

# A sample as one file, or what of a large sample stands apart from its events and messages.
_SHELL = "/sample.json"
_SAMPLE = re.compile(rf"samples/.+_epoch_\d+(\.json|{re.escape(_SHELL)})")
# The number of zstd among the methods of zip, which Python's own module knows from 3.14 on.
_ZSTD = 93
# The fixed part of a member's own header: its lengths of name and extra field are the last four bytes.
_HEADER_BYTES = 30
_BROKEN = (zipfile.BadZipFile, OSError, ValueError, RecursionError, NotImplementedError, struct.error, zlib.error)


def eval_rows(path: Path) -> Iterator[RawRow]:
    """Every sample of a `.eval` log in the order of the archive; one that cannot be read comes with its problem."""
    number = 0
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if _SAMPLE.fullmatch(member.filename)]
            if not members:
                raise ValueError("an archive without samples: is the evaluation still at its beginning?")
            for number, member in enumerate(members):
                yield _row(path, archive, member, number)
    except _BROKEN as error:
        yield RawRow(number, number + 1, None, f"expected a log of Inspect, got {one_line(error)}", rest_lost=True)


def _row(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, number: int) -> RawRow:
    """One sample as a row, or what is wrong with it."""
    if member.file_size > raw_rows.LONGEST_ROW:
        longest = raw_rows.LONGEST_ROW // raw_rows.MEGABYTE
        return RawRow(number, number + 1, None, f"a sample of more than {longest} MB, the longest that is read")
    try:
        value = json.loads(_content(path, archive, member))
        if isinstance(value, dict) and member.filename.endswith(_SHELL):
            value["attachments"] = _attachments(path, archive, member.filename.removesuffix(_SHELL))
    except (*_BROKEN, TypeError) as error:
        return RawRow(number, number + 1, None, f"expected a sample of Inspect, got {one_line(error)}")
    if not isinstance(value, dict):
        return RawRow(number, number + 1, None, f"expected a sample of Inspect, got {type(value).__name__}")
    return RawRow(number, number + 1, value)


def _attachments(path: Path, archive: zipfile.ZipFile, sample: str) -> dict[str, str]:
    """The long texts of a large sample by their numbers, for which `attachment://NUMBER` stands elsewhere in it."""
    attachments: dict[str, str] = {}
    chunk = re.compile(rf"{re.escape(sample)}/attachments/(\d+)\.json")
    for member in archive.infolist():
        match = chunk.fullmatch(member.filename)
        if match and member.file_size <= raw_rows.LONGEST_ROW:
            texts = json.loads(_content(path, archive, member))
            attachments |= {str(number): text for number, text in enumerate(texts, start=int(match[1]))}
    return attachments


def _content(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """A member of the archive, unpacked."""
    if member.compress_type != _ZSTD:
        return archive.read(member)
    import pyarrow as pa

    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(_HEADER_BYTES)
        name_bytes, extra_bytes = struct.unpack("<HH", header[-4:])
        file.seek(name_bytes + extra_bytes, 1)
        packed = file.read(member.compress_size)
    stream: Any = pa.CompressedInputStream(pa.BufferReader(packed), "zstd")
    content = bytes(stream.read(member.file_size + 1))
    if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile(f"a broken file {member.filename!r} inside")
    return content
