"""Control socket: requests, replies, clients that misbehave, and leases."""

import contextlib
import json
import socket

import pytest

from agent.host.control.program_requests import CreateCq, DestroyRank
from agent.host.control.requests import CreateQp, Destroy, Hello, QpName, RegionName, RegisterRegion, Verify
from agent.host.control.server import ControlServer, Leases
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


class Worker:
    """Remembers what there is."""

    def __init__(self):
        self.there = {}

    def serve(self, request):
        number = len(self.there)
        match request:
            case CreateQp(host=host):
                self.there[QpName(host, number)] = True
                return {"qpn": number}
            case RegisterRegion(host=host):
                self.there[RegionName(host, number)] = True
                return {"rkey": number}
            case Destroy(qps=qps, regions=regions):
                for name in (*qps, *regions):
                    if not self.there.get(name):
                        raise RequestError(f"no {name}")
                    self.there[name] = False
        return {}

    def left(self):
        return [name for name, is_there in self.there.items() if is_there]


def test_leased_queue_pairs_and_regions_go_with_their_client():
    worker = Worker()
    leases = Leases(worker.serve)
    leases.serve(RegisterRegion(0, 9, 1, "source", leased=True), 1)
    leases.serve(CreateQp(0, 1, leased=True), 1)
    leases.serve(CreateQp(2, 3, leased=True), 2)
    leases.serve(CreateQp(4, 5), 1)
    leases.left(3)
    assert len(worker.left()) == 4
    leases.left(1)
    assert worker.left() == [QpName(2, 2), QpName(4, 3)]
    leases.left(1)
    assert len(worker.left()) == 2


def test_what_the_client_has_destroyed_itself_does_no_harm():
    worker = Worker()
    leases = Leases(worker.serve)
    leases.serve(RegisterRegion(0, 9, 1, "source", leased=True), 1)
    leases.serve(CreateQp(0, 1, leased=True), 1)
    leases.serve(Destroy(qps=(QpName(0, 1),)), 1)
    leases.left(1)
    assert worker.left() == []


def test_a_number_that_was_given_out_again_is_left_to_who_has_it_now():
    worker = Worker()
    leases = Leases(worker.serve)
    leases.serve(CreateQp(0, 1, leased=True), 1)
    leases.serve(RegisterRegion(0, 9, 1, "source", leased=True), 1)
    leases.serve(Destroy((QpName(0, 0),), (RegionName(0, 1),)), 2)
    worker.there |= {QpName(0, 0): True, RegionName(0, 1): True}
    leases.left(1)
    assert worker.left() == [QpName(0, 0), RegionName(0, 1)]


def test_a_leased_rank_goes_after_its_queue_pairs():
    asked = []

    def serve(request):
        asked.append(request)
        return {"cq": 7, "qpn": 5}

    leases = Leases(serve)
    leases.serve(CreateCq(1, leased=True), 1)
    leases.serve(CreateQp(1, 2, leased=True, cq=7), 1)
    leases.left(1)
    assert asked[2:] == [Destroy(qps=(QpName(1, 5),)), DestroyRank(1, 7)]
