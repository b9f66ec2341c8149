"""The Python API on engines over the fabric in memory: what a program sees of regions, queue pairs and completions."""

from collections.abc import Iterator
from typing import Any

import pytest

from agent.core.errors import CoreError
from agent.host.control import requests as ask
from agent.host.errors import RequestError
from agent.io.memory_fabric import PathRule
from scenarios import api
from scenarios.api import CompletionStatus, ImmediateArrived, Lab, QpState, QueuePair, WritesDone
from scenarios.errors import (
    EnvironmentLackingError,
    LabStateError,
    RunStalledError,
    UsageError,
    WorkerFailedError,
)
from testbed.model.fabric import Fabric, FabricSpec
from tests.unit.agent.host.test_commands import Worker as Engine

SIZE = 10_000


class Worker:
    """Answers as an engine worker does; time passes with every question."""

    def __init__(self, *rules: PathRule) -> None:
        self.engine = Engine(*rules)

    def ask(self, request: ask.Request) -> dict[str, Any]:
        self.engine.run(20)
        try:
            return self.engine.ask(request)
        except (RequestError, CoreError) as error:
            raise WorkerFailedError(str(error)) from error


def lab_over(*rules: PathRule) -> Lab:
    lab = Lab("unittest0")
    lab._adopt([Worker(*rules)], Fabric.of(FabricSpec(2, 2, 4, 2)))  # type: ignore[list-item]
    return lab


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = lab_over()
    yield lab
    lab._close_all()


def connected(lab: Lab, **transport: Any) -> tuple[QueuePair, QueuePair]:
    return lab.connect(lab.host("h0"), lab.host("h2"), **({"pmtu": 256} | transport))


def test_a_write_arrives_in_the_peers_memory(lab: Lab) -> None:
    here, there = connected(lab)
    with here.host.register(SIZE) as source, there.host.register(SIZE) as target:
        source.data[:] = 3
        assert here.write(source, 100, 5000, target, 2000) == 0
        assert here.wait() == WritesDone(here.qpn, 0, 1, 5000, CompletionStatus.SUCCESS)
        assert target.data.tolist() == [0] * 2000 + [3] * 5000 + [0] * 3000
    assert there.poll() == []
    assert here.state is QpState.RTS


def test_both_ends_may_write_and_regions_may_be_both_source_and_target(lab: Lab) -> None:
    here, there = connected(lab)
    one, other = here.host.register(8), there.host.register(8)
    one.data[:4], other.data[4:] = 1, 2
    here.write(one, 0, 4, other, 0)
    there.write(other, 4, 4, one, 4)
    assert (here.wait().length_bytes, there.wait().length_bytes) == (4, 4)
    assert one.data.tolist() == other.data.tolist() == [1] * 4 + [2] * 4


def test_an_immediate_takes_a_receive_and_says_all_is_there(lab: Lab) -> None:
    here, there = connected(lab)
    source, target = here.host.register(SIZE), there.host.register(SIZE)
    source.data[:] = 9
    there.post_receives(2)
    here.write(source, 0, SIZE, target, 0)
    assert here.write(source, 0, 1, target, 0, imm=0xBEEF) == 1
    assert there.wait() == ImmediateArrived(there.qpn, 0, 0xBEEF, 1)
    assert target.data.min() == 9


def test_many_writes_are_numbered_on(lab: Lab) -> None:
    here, there = connected(lab)
    source, target = here.host.register(SIZE), there.host.register(SIZE)
    assert here.write_many(source, 0, 1000, target, 0, 300) == range(4)
    assert here.write_many(source, 0, 10, target, 0, 10) == range(4, 5)
    done = 0
    while done < 5:
        completion = here.wait()
        assert isinstance(completion, WritesDone)
        assert (completion.first_wr_id, completion.status) == (done, CompletionStatus.SUCCESS)
        done += completion.count


def test_an_error_ends_the_queue_pair_and_flushes_the_rest(lab: Lab) -> None:
    here, there = connected(lab)
    source, target = here.host.register(SIZE), there.host.register(SIZE)
    here.write(source, 0, 10, target, 0)
    assert here.wait().status is CompletionStatus.SUCCESS
    here.write_many(source, 0, 40, target, SIZE - 5, 10)
    assert [here.wait(), here.wait()] == [
        WritesDone(here.qpn, 1, 1, 0, CompletionStatus.REMOTE_ACCESS_ERROR),
        WritesDone(here.qpn, 2, 3, 0, CompletionStatus.FLUSHED),
    ]
    assert (here.state, there.state) == (QpState.ERROR, QpState.ERROR)
    with pytest.raises(WorkerFailedError, match="ERROR"):
        here.write(source, 0, 1, target, 0)
    with pytest.raises(WorkerFailedError, match="ERROR"):
        there.post_receives(1)


def test_giving_up_flushes_what_is_posted() -> None:
    lab = lab_over(PathRule(source=0, loss=1.0))
    here, there = connected(lab)
    source, target = here.host.register(SIZE), there.host.register(SIZE)
    here.write_many(source, 0, SIZE, target, 0, 1000)
    with pytest.raises(RunStalledError, match=r"h0 QP 0x1 to h2: nothing completed for 0.05 s; it is in RTS"):
        here.wait(0.05)
    here.fail()
    statuses = [completion.status for completion in here.poll()]
    assert statuses == [CompletionStatus.FLUSHED, CompletionStatus.FLUSHED]


def test_counters_and_paths_are_those_of_the_host(lab: Lab) -> None:
    here, there = connected(lab)
    source, target = here.host.register(SIZE), there.host.register(SIZE)
    here.write(source, 0, SIZE, target, 0)
    here.wait()
    assert here.counters()["packets_tx"] == 40
    rows = here.host.evs()
    assert (len(rows), sum(row["tx_first"] for row in rows)) == (8, 40)


def test_what_is_closed_is_gone_and_closing_twice_is_safe(lab: Lab) -> None:
    here, there = connected(lab)
    source, target = here.host.register(SIZE), there.host.register(SIZE)
    target.close()
    target.close()
    here.write(source, 0, 10, target, 0)
    first = here.wait()
    assert first.status is CompletionStatus.REMOTE_ACCESS_ERROR
    there.close()
    there.close()
    assert lab.host("h2").counters() == []
    lab._close_all()
    assert [host.counters() for host in lab.hosts] == [[]] * 4
    assert source.data.shape == (SIZE,)


def test_wrong_use_is_said(lab: Lab) -> None:
    here, there = connected(lab)
    source, target = here.host.register(8), there.host.register(8)
    with pytest.raises(UsageError, match="a region of h2 is given to h0 QP 0x1 to h2, where one of h0 is wanted"):
        here.write(target, 0, 8, source, 0)
    with pytest.raises(WorkerFailedError, match="not inside a region of 8"):
        here.write(source, 0, 9, target, 0)
    with pytest.raises(UsageError, match="did you mean h3"):
        lab.host("h9")
    with pytest.raises(UsageError, match="p0-leaf0 is a switch"):
        lab.host("p0-leaf0")
    with pytest.raises(UsageError, match=r"pmtu: .*window_pkts: .*colour: "):
        connected(lab, pmtu=100, window_pkts=0, colour="red")
    with pytest.raises(UsageError, match="there are 8 EVs"):
        connected(lab, ev={"active": 40})
    with pytest.raises(EnvironmentLackingError, match="more than half of the free memory"):
        lab.host("h0").register(1 << 50)
    for none in (None, 0, b"h0"):
        with pytest.raises(UsageError, match="is not a host name"):
            lab.host(none)  # type: ignore[arg-type]
    for none in ("x", None, float("nan"), True):
        with pytest.raises(UsageError, match="write a whole number"):
            here.host.register(none)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="write a whole number"):
            here.post_receives(none)  # type: ignore[arg-type]
    for number in (-1, 0, 2**31):
        with pytest.raises(WorkerFailedError, match=f"{number} receives cannot be posted: post 1 to 65536"):
            there.post_receives(number)


def test_without_a_lab_or_outside_of_it_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentLackingError, match="root"), Lab("unittest0"):
        pass
    monkeypatch.setattr(api.os, "geteuid", lambda: 0)
    with pytest.raises(LabStateError, match="lab 'unittest0' is not up"), Lab("unittest0"):
        pass
    with pytest.raises(UsageError, match="use it inside"):
        Lab("unittest0").host("h0")
