"""The gather benchmark with few processes and tiny states: what arrives, what is counted, what is refused."""

import io
import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.gather.network import address, leave_network
from benchmarks.gather.options import Options, needed_bytes, state_bytes
from benchmarks.gather.worker import Seen
from rich.console import Console

from benchmarks.gather import cluster, command
from geoalign.errors import ConfigError, GeoAlignError, UnsupportedError
from geoalign.lab.bench.curation import Shape

ROOT = Path(__file__).parents[3]
# 32 rows of 4 kB: 16 kB of states for each of two processes would drown in what joining sends; 64 kB do not.
SHAPE = "8x4x1024"


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.gather", *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )


def namespaces_allowed():
    code = "from benchmarks.gather.network import Switch; Switch(100)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, cwd=ROOT).returncode == 0


def test_the_script_measures_and_writes(tmp_path):
    file = tmp_path / "gather.json"
    done = run("--shape", SHAPE, "--processes", "2", "--repeats", "2", "--json", str(file))
    assert done.returncode == 0, done.stderr
    assert "Gathering states, loopback" in done.stdout
    record = json.loads(file.read_text())
    assert (record["schema_version"], record["megabits"], record["repeats"]) == (1, None, 2)
    assert [row["part"] for row in record["rows"]] == ["to all", "to one", "back"]
    for row in record["rows"]:
        assert row["states"] == 4 * 32 * 1024
        assert len(row["seconds"]) == 2
        assert min(row["seconds"]) > 0
        # Bytes are counted on cables only.
        assert row["received"] is None


def test_bytes_on_the_cables(tmp_path):
    if not namespaces_allowed():
        pytest.skip("no network namespaces here: they need root, iproute2 and the kernel's bridge, veth and tbf")
    file = tmp_path / "gather.json"
    done = run("--shape", "64x4x1024", "--processes", "4", "--repeats", "1", "--megabits", "200", "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = {row["part"]: row for row in json.loads(file.read_text())["rows"]}
    away = 4 * 256 * 1024 * 3 / 4  # three quarters of 1 MB come from the other three
    frames = 1.1  # headers, and what goes back to say that it came
    assert away <= rows["to all"]["received"] < frames * away
    assert away <= rows["to all"]["received_elsewhere"] < frames * away
    assert away <= rows["to one"]["received"] < frames * away
    assert rows["to one"]["received_elsewhere"] < away / 10
    assert away / 3 <= rows["to one"]["sent"] < frames * away / 3
    assert rows["back"]["received_elsewhere"] < away / 10
    # 0.79 MB at 25 MB/s less what the cable lets through at once (0.26 MB) take a while.
    assert rows["to one"]["seconds"][0] > (away - 2 * 262144) / 25e6


def test_a_process_that_fails_is_named(monkeypatch):
    with pytest.raises(GeoAlignError, match=r"process \d: KeyError: 'no such part'"):
        cluster.measure_together([(Shape(2, 2, 4), "no such part")], processes=2, repeats=1, switch=None)


def test_what_does_not_fit_is_left_out_and_said(monkeypatch):
    asked = []

    def together(jobs, *, processes, repeats, switch):
        asked.append([part for _, part in jobs])
        seen = [Seen((0.5, 0.25), 10.0, 20.0, 30.0), Seen((0.25, 1.0), 15.0, 5.0, 40.0)]
        return cluster.Together(joined=2.0, jobs=[seen for _ in jobs])

    monkeypatch.setattr(command, "measure_together", together)
    # 16 rows of 4 kB are 65,536 bytes: 29 of them in "to all" with 4 processes, 4 in "to one".
    options = Options(shapes=(Shape(4, 4, 1024),), processes=(4,), repeats=2, gigabytes=0.0005)
    rows = command.measure_gathers(options)
    assert asked == [["to one", "back"]]
    assert [row.part for row in rows if row.left_out] == ["to all"]
    one = rows[1]
    # The slower process ends each call; of process 0 what it received, of the others the most.
    assert one.seconds == (0.5, 1.0)
    assert (one.received, one.received_elsewhere, one.sent) == (10.0, 15.0, 20.0)
    assert (one.extra, one.extra_elsewhere, one.median) == (30.0, 40.0, 1.0)
    console = Console(file=io.StringIO(), width=160)
    command.print_gathers(console, options, rows)
    said = console.file.getvalue()
    assert "Left out: to all, 4 x 4, d = 1024, 4 processes: needs 0.0 GB" in said
    assert "4: 2.0 s" in said
    assert math.isnan(rows[0].median)
    assert command.gathers_json(options, rows)["rows"][1]["shape"] == {"groups": 4, "size": 4, "d": 1024}


def test_bytes_by_hand():
    shape = Shape(2, 3, 5)
    assert state_bytes(shape) == 2 * 3 * 5 * 4
    # The shares, and seven times the states in each of 7 processes.
    assert needed_bytes("to all", shape, 7) == 120 * (1 + 7 * 7)
    assert needed_bytes("back", shape, 7) == 120


def test_addresses():
    assert [address(number) for number in (0, 249, 250, 999)] == [
        "10.77.0.1",
        "10.77.0.250",
        "10.77.1.1",
        "10.77.3.250",
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"processes": (1,)}, "processes: expected 2 to 1000, got 1"),
        ({"processes": (3,)}, "processes: expected a divisor of the 8 rollouts of 4 x 2, d = 8, got 3"),
        ({"repeats": 0}, "repeats: expected at least 1, got 0"),
        ({"megabits": 0}, "megabits: expected at least 1, got 0"),
        ({"gigabytes": 0.0}, r"gigabytes: expected more than 0, got 0\.0"),
    ],
)
def test_bad_options(given, message):
    with pytest.raises(ConfigError, match=message):
        Options(**{"shapes": (Shape(4, 2, 8),), "processes": (2,), **given})


def test_namespaces_that_are_refused(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: type("Refusing", (), {"unshare": lambda self, flag: -1})())
    with pytest.raises(UnsupportedError, match="run it as root, or behind `unshare --map-root-user --net`"):
        leave_network()


def test_the_page_names_options_that_exist():
    page = (ROOT / "benchmarks" / "scaling.md").read_text(encoding="utf-8")
    found = re.findall(r"^python -m benchmarks.gather (.*)$", page, re.MULTILINE)
    assert found
    for arguments in found:
        command.options_of(shlex.split(arguments))
