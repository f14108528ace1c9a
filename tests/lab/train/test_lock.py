import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from geoalign.errors import RunFolderError
from geoalign.lab.store.files import locked

HOLD = """
import subprocess, sys, time
from pathlib import Path
from geoalign.lab.store.files import locked
with locked(Path(sys.argv[1])):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    print(child.pid, flush=True)
    time.sleep(60)
"""


def test_a_lock_is_given_back(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path / "new"):
            assert (tmp_path / "new" / ".lock").read_text() == f"{os.getpid()}\n"


def test_another_process_is_refused_and_a_dead_one_is_not(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        with (
            pytest.raises(RunFolderError, match=f"in use by another process \\(number {holder.pid}\\)"),
            locked(tmp_path),
        ):
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
