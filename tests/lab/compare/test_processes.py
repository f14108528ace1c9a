import os
import subprocess
import sys
import time
from pathlib import Path

from geoalign.lab.compare.pool import WorkerProcess, last_line
from geoalign.lab.compare.worker import time_and_memory


def ended(process, seconds=60):
    """The exit code; None if it has not ended by then."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        code = process.exit_code()
        if code is not None:
            return code
        time.sleep(0.05)
    return None


def alive(number):
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_broken_job_is_told_by_the_last_line_of_the_log(tmp_path):
    process = WorkerProcess({}, log=tmp_path / "a" / "worker.log", threads=1)
    assert ended(process) == 1
    assert process.error() == "KeyError: 'kind'"
    assert "Traceback" in process.log.read_text()


def test_a_worker_and_its_helpers_end_when_the_parent_is_killed(tmp_path):
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from geoalign.lab.compare import pool\n"
        "pool._WORKER = 'geoalign_test_worker'\n"
        "print(pool.WorkerProcess({}, log=Path(sys.argv[1]), threads=1)._process.pid, flush=True)\n"
        "time.sleep(60)"
    )
    # The real worker's watch, around a job that only waits for a helper of its own.
    (tmp_path / "geoalign_test_worker.py").write_text(
        "import subprocess, sys, threading\n"
        "from geoalign.lab.compare import worker\n"
        "sys.stdin.buffer.readline()\n"
        "threading.Thread(target=worker._end_with_parent, daemon=True).start()\n"
        "helper = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(helper.pid, flush=True)\n"
        "helper.wait()\n"
    )
    log = tmp_path / "worker.log"
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(log)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
    )
    worker = int(parent.stdout.readline())
    deadline = time.monotonic() + 60
    while not last_line(log) and time.monotonic() < deadline:
        time.sleep(0.05)
    helper = int(last_line(log))
    assert alive(worker)
    assert alive(helper)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 30
    while (alive(worker) or alive(helper)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(worker)
    assert not alive(helper)


def test_seconds_are_summed_over_starts_and_unknown_after_a_kill():
    start = {"started": 0.0}
    first = {"seconds": 2.0, "peak_memory_bytes": 30}
    second = {"seconds": 3.0, "peak_memory_bytes": 20}
    assert time_and_memory([start, first]) == {"seconds": 2.0, "peak_memory_bytes": 30}
    assert time_and_memory([start, first, start, second]) == {"seconds": 5.0, "peak_memory_bytes": 30}
    assert time_and_memory([start, start, second]) == {"seconds": None, "peak_memory_bytes": 20}
