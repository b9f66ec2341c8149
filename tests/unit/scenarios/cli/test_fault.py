"""`spraylab fault set` that is refused: the error first, then what is in force there."""

from typing import Any

import pytest
from click.testing import CliRunner

from scenarios.cli.lab import fault
from scenarios.cli.main import main
from scenarios.errors import EnvironmentLackingError
from scenarios.lab.protocol import Faults, FaultSet
from testbed.model.fabric import Fabric, FabricSpec


class FullDisk:
    """An owner that can write nothing down."""

    def __init__(self, _labdir: object) -> None:
        pass

    def __enter__(self) -> "FullDisk":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, request: object, _reply: object) -> Any:
        if isinstance(request, FaultSet):
            raise EnvironmentLackingError("truth.jsonl: No space left on device")
        return Faults(())


def test_the_error_comes_before_what_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault, "Owner", FullDisk)
    monkeypatch.setattr(fault, "require_root", lambda: None)
    monkeypatch.setattr(fault, "fabric_up", lambda _: Fabric.of(FabricSpec(1, 2, 2)))
    ended = CliRunner().invoke(main, ["fault", "set", "p0:leaf0>spine1", "--drop", "1%"])
    told = ["spraylab: truth.jsonl: No space left on device", "no fault is in force there"]
    assert (ended.exit_code, ended.stderr.splitlines()) == (3, told)
