"""The port of the reward server: what is wrong with it is said in one line, before a model is loaded."""

import socket

import pytest

from geoalign.errors import ConfigError
from geoalign.lab.cli import main
from geoalign.lab.serve_reward.server import bound_sockets, serve


def test_the_addresses_of_a_name_are_bound_and_freed():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for _ in range(2):
        with bound_sockets("localhost", port) as sockets:
            assert ("127.0.0.1", port) in [one.getsockname()[:2] for one in sockets]


@pytest.mark.parametrize("port", [0, -1, 65536, 10**12])
def test_a_port_out_of_range_is_refused(port):
    with pytest.raises(ConfigError, match=f"port: expected 1 to 65535, got {port}"), bound_sockets("127.0.0.1", port):
        pass


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "x..y", "1.2.3.4.5", "\x00"])
def test_a_host_that_is_not_this_machine_is_refused(host):
    with pytest.raises(ConfigError, match="host: expected an address of this machine"), bound_sockets(host, 8100):
        pass


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        expected = f"port: expected a free one at 127.0.0.1, got {port}: Address already in use"
        with pytest.raises(ConfigError, match=expected), bound_sockets("127.0.0.1", port):
            pass


def test_a_port_that_is_taken_while_the_model_loads_is_named():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with bound_sockets("127.0.0.1", port) as mine, bound_sockets("127.0.0.1", port) as others:
        others[0].listen()
        with pytest.raises(ConfigError, match=f"port: expected a free one at 127.0.0.1, got {port}"):
            serve(None, mine)


def test_a_port_that_only_others_may_use_is_named(monkeypatch):
    def bind(self, address):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(
        "geoalign.lab.serve_reward.server.socket.socket", type("Socket", (socket.socket,), {"bind": bind})
    )
    expected = "port: expected one that this user may listen at, such as 8100 at 127.0.0.1, got 80: Permission denied"
    with pytest.raises(ConfigError, match=expected), bound_sockets("127.0.0.1", 80):
        pass


def test_the_command_says_it_in_one_line(monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr("sys.argv", ["geoalign", "serve-reward", "--model", "/nowhere", "--port", str(port)])
        with pytest.raises(SystemExit) as stopped:
            main()
    assert stopped.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"got {port}: Address already in use" in said
    assert "Traceback" not in said
