"""Whoever waits for a socket's file can connect once it is there."""

import os
import socket

import pytest

from agent.io.listening import listen_at


def test_the_file_is_there_only_once_one_can_connect(tmp_path):
    path, there = tmp_path / "x.sock", []

    class Watched(socket.socket):
        def bind(self, address):
            super().bind(address)
            there.append(path.exists())

        def listen(self, *waiting):
            there.append(path.exists())
            super().listen(*waiting)

    with Watched(socket.AF_UNIX, socket.SOCK_STREAM) as listener, socket.socket(socket.AF_UNIX) as client:
        listen_at(path, listener, 1)
        client.connect(os.fspath(path))
    assert there == [False, False]
    assert [each.name for each in tmp_path.iterdir()] == ["x.sock"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_nothing_stays_where_it_fails(tmp_path):
    (tmp_path / "x.sock").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, pytest.raises(OSError, match="directory"):
        listen_at(tmp_path / "x.sock", listener, 1)
    assert [each.name for each in tmp_path.iterdir()] == ["x.sock"]
