"""The settings file: what it turns into, and what is said of a wrong one."""

import json

import pytest

from agent.host.errors import SettingsError
from agent.host.settings import load_settings


def good() -> dict:
    ports = [
        {
            "plane": plane,
            "interface": f"plane{plane}",
            "mac": f"02:3{plane}:00:00:20:00",
            "leaf_mac": "02:20:00:00:30:00",
        }
        for plane in range(2)
    ]
    place = {"host": 0, "address": "fd5f::", "leaf": 0, "slot": 0}
    return {
        "lab": "lab",
        "control_socket": "/run/w0.sock",
        "event_log": "/run/agent.jsonl",
        "older_event_log": "/run/agent.older.jsonl",
        "fabric": {"planes": 2, "leaves": 2, "spines": 2, "hosts_per_leaf": 1},
        "hosts": [{**place, "netns": "/run/netns/spraylab-lab-h0", "ports": ports}],
        "peers": [place, {"host": 1, "address": "fd5f::1", "leaf": 1, "slot": 0}],
    }


@pytest.fixture
def write(tmp_path):
    def write(settings):
        path = tmp_path / "settings.json"
        path.write_text(json.dumps(settings))
        return path

    return write


def test_a_full_file_becomes_addresses(write):
    settings = load_settings(write(good()))
    address = settings.hosts[0].wire_address()
    assert address.address == bytes.fromhex("fd5f") + bytes(14)
    assert address.ports[1].mac == bytes.fromhex("023100002000")
    assert settings.peer_addresses()[1].leaf == 1
    assert (settings.udp_port, settings.check_icrc, settings.cpu) == (4791, True, None)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("colour",), 1, "unknown field `colour`"),
        (("fabric", "planes"), "two", r"Expected `int`, got `str` - at `\$.fabric.planes`"),
        (("hosts", 0, "ports", 0, "plane"), 1, r"host 0: its ports are not those of planes 0..1 in order"),
        (("hosts", 0, "host"), 9, "host 9 is not among the peers"),
        (("peers", 1, "address"), "fd5f", "host 1: 'fd5f' is not an IPv6 address"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_file_is_refused_with_the_reason(write, path, value, reason):
    settings = good()
    target = settings
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    with pytest.raises(SettingsError, match=reason):
        load_settings(write(settings))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"nowhere.json: No such file"):
        load_settings(tmp_path / "nowhere.json")
