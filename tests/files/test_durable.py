"""Files that a kill leaves whole: written at once, lines appended whole, a folder locked while its process lives."""

import math
import os
import signal
import subprocess
import sys
import time

import pytest

from geoalign.errors import RunFolderError
from geoalign.files.durable import locked, write_atomically
from geoalign.files.json_files import append_lines, keep_whole_lines, read_lines

HOLD = """
import subprocess, sys, time
from pathlib import Path
from geoalign.files.durable import locked
with locked(Path(sys.argv[1])):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    print(child.pid, flush=True)
    time.sleep(60)
"""


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    write_atomically(path, "old")

    def broken(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"


def test_a_cut_last_line_is_left_out_and_cut_away(tmp_path):
    path = tmp_path / "lines.jsonl"
    append_lines(path, [{"step": 1}, {"step": 2, "x": math.nan}, {"step": 3, "x": 0.1 + 0.2}])
    with path.open("a") as file:
        file.write('{"step": 4, "lo')
    assert read_lines(path) == [{"step": 1}, {"step": 2, "x": None}, {"step": 3, "x": 0.1 + 0.2}]
    keep_whole_lines(path)
    assert path.read_text().endswith('{"step": 2, "x": null}\n{"step": 3, "x": 0.30000000000000004}\n')


def test_another_process_is_refused_and_a_dead_one_is_not(tmp_path):
    for _ in range(2):  # a lock is given back
        with locked(tmp_path / "new"):
            assert (tmp_path / "new" / ".lock").read_text() == f"{os.getpid()}\n"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        words = f"in use by another process \\(number {holder.pid}\\)"
        with pytest.raises(RunFolderError, match=words), locked(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        # A process that the dead one had started is still there: it must not keep the lock.
        os.kill(child, 0)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                with locked(tmp_path):
                    return
            except RunFolderError:
                time.sleep(0.05)
        pytest.fail("the lock of a dead process was kept")
    finally:
        os.kill(child, signal.SIGKILL)
        holder.kill()
        holder.wait()
        holder.stdout.close()
