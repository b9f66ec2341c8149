"""The control socket: framing, errors as replies, clients that misbehave, the socket file's life."""

import contextlib
import json
import socket

import pytest

from agent.host.control.requests import Hello, Verify
from agent.host.control.server import ControlServer
from agent.host.errors import RequestError


def serve(request, _client):
    match request:
        case Hello():
            return {"pid": 1, "hosts": [0]}
        case Verify(rkey=rkey):
            raise RequestError(f"no region {rkey}")


@pytest.fixture
def server(tmp_path):
    with ControlServer(tmp_path / "w.sock", serve, lambda _: None) as server:
        yield server


@contextlib.contextmanager
def client(server):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(str(server._path))
        server.poll()
        yield connection


def ask(server, connection, data: bytes) -> list[dict]:
    connection.sendall(data)
    server.poll()
    return [json.loads(line) for line in connection.recv(1 << 16).splitlines()]


def test_a_request_gets_its_reply(server):
    with client(server) as connection:
        assert ask(server, connection, b'{"op":"hello"}\n') == [{"ok": True, "pid": 1, "hosts": [0]}]


def test_requests_are_answered_in_order_however_they_are_cut(server):
    with client(server) as connection:
        connection.sendall(b'{"op":"hello"}\n{"op":"veri')
        server.poll()
        replies = ask(server, connection, b'fy","host":0,"rkey":7,"seed":1}\n\n')
    assert replies == [{"ok": True, "pid": 1, "hosts": [0]}, {"ok": False, "error": "no region 7"}]


CREATE = b'{"op":"create_qp","host":0,"peer_host":1,"config":{"core":{%b}}}\n'


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"nonsense\n", "JSON is malformed"),
        (b'{"op":"fly"}\n', "Invalid value 'fly'"),
        (b'{"op":"hello","x":1}\n', "unknown field `x`"),
        (CREATE % b'"pmtu":0,"mpr":256', "pmtu is 0, must be 1..8192; mpr is 256, must be 1..255"),
        (CREATE % b'"pmtux":1', "unknown field `pmtux`"),
        (CREATE % b'"loss_rule":"none"', "Invalid enum value 'none' - at `$.config.core.loss_rule`"),
        (b'{"op":"verify","host":0,"rkey":"a","seed":1}\n', "Expected `int`, got `str` - at `$.rkey`"),
    ],
)
def test_a_bad_request_gets_an_error_and_the_connection_lives(server, line, error):
    with client(server) as connection:
        (reply,) = ask(server, connection, line)
        assert not reply["ok"]
        assert error in reply["error"]
        assert ask(server, connection, b'{"op":"hello"}\n')[0]["ok"]


def test_several_clients_and_one_that_leaves(server):
    with client(server) as first:
        with client(server) as second:
            second.sendall(b'{"op":"hel')
        assert ask(server, first, b'{"op":"hello"}\n')[0]["ok"]
        assert len(server._clients) == 1


def test_the_socket_file_goes_with_the_server_and_a_dead_one_is_replaced(tmp_path):
    path = tmp_path / "w.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with (
        ControlServer(path, serve, print),
        pytest.raises(OSError, match="in use by another"),
        ControlServer(path, serve, print),
    ):
        pass
    assert not path.exists()


def test_who_has_left_is_told_by_number(tmp_path):
    asked, gone = [], []

    def numbered(_request, number):
        asked.append(number)
        return {}

    with ControlServer(tmp_path / "w.sock", numbered, gone.append) as server, client(server) as stays:
        with client(server) as leaves:
            ask(server, leaves, b'{"op":"hello"}\n{"op":"hello"}\n')
        ask(server, stays, b'{"op":"hello"}\n')
        assert gone == asked[:1] == asked[1:2]
        assert asked[2] not in gone
