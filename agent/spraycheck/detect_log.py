"""detect.jsonl: the records of what leaves and the monitor found, and the file that they are appended to.

The records are those of `agent.wire.detect_records`, made of reports and a moment. One write per line, so that several
processes may append and no reader sees half a line.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from agent.base.moment import Moment
from agent.spraycheck.accuse.conclusions import LinkConclusion, PathConclusion
from agent.spraycheck.accuse.explanations import DecidingFlow
from agent.spraycheck.accuse.localization import Evidence
from agent.spraycheck.accuse.monitor import Accusation, Conclusions
from agent.spraycheck.leaf.bpf_layout import Counting
from agent.spraycheck.leaf.flow_reports import ChosenFlow, FlowReport, RefusedFlow
from agent.spraycheck.paths import leaf_name
from agent.spraycheck.statistics.verdicts import Requirements
from agent.wire import detect_records as written
from agent.wire.detect_records import (
    DecidingRecord,
    Detect,
    EstimateRecord,
    EvidenceRecord,
    Localize,
    Select,
    Start,
    Unmeasured,
)


class DetectLog:
    """An append-only file of JSON lines. Opened by `with`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def __enter__(self) -> Self:
        """Open the file, made if it is not there. Raises OSError."""
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def append(self, record: msgspec.Struct) -> None:
        """Write one record as one line. Raises OSError, also when it could not be written whole (no space left)."""
        if self._fd is None:
            raise ValueError(f"{self._path} is not open")
        line = msgspec.json.encode(record) + b"\n"
        try:
            written = os.write(self._fd, line)
        except OSError as error:  # the error of a write names no file
            raise OSError(error.errno, error.strerror, str(self._path)) from error
        if written != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))


def select_record(flow: ChosenFlow, stamp: Moment) -> Select:
    """Make the record of a choice."""
    return Select(
        ts=stamp.text,
        mono_ns=stamp.mono_ns,
        node=leaf_name(flow.plane, flow.src_leaf),
        epoch=flow.epoch,
        plane=flow.plane,
        src_leaf=flow.src_leaf,
        dst_leaf=flow.dst_leaf,
        qpn=flow.qpn,
    )


def unmeasured_record(flow: RefusedFlow, stamp: Moment) -> Unmeasured:
    """Make the record of a flow that is not measured."""
    return Unmeasured(
        ts=stamp.text,
        mono_ns=stamp.mono_ns,
        node=leaf_name(flow.plane, flow.leaf),
        epoch=flow.epoch,
        plane=flow.plane,
        src_leaf=flow.src_leaf,
        dst_leaf=flow.dst_leaf,
        src_host=flow.src_host,
        dst_host=flow.dst_host,
        qpn=flow.qpn,
        reason=flow.reason,
    )


def start_record(leaves: int, counting: Counting, required: Requirements, stamp: Moment) -> Start:
    """Make the record of the process's start."""
    return Start(
        ts=stamp.text,
        mono_ns=stamp.mono_ns,
        leaves=leaves,
        counter_bits=16 if counting.narrow else 32,
        counter_bytes=counting.counter_bytes,
        record_bytes=counting.flow.itemsize,
        run_alarm=required.run_alarm,
        run_tests=required.run_tests,
    )


def detect_records(report: FlowReport, stamp: Moment) -> list[Detect]:
    """Make one record per path, in the order of the spines."""
    flow, test, counts = report.flow, report.test, report.counts
    return [
        Detect(
            ts=stamp.text,
            mono_ns=stamp.mono_ns,
            node=leaf_name(flow.plane, flow.dst_leaf),
            epoch=flow.epoch,
            plane=flow.plane,
            spine=report.spines[each.path],
            src_leaf=flow.src_leaf,
            dst_leaf=flow.dst_leaf,
            src_host=flow.src_host,
            dst_host=flow.dst_host,
            qpn=flow.qpn,
            expectation=report.expectation,
            packets=flow.packets,
            paths=test.shape.paths if test else len(report.spines),
            expected=report.expected[each.path],
            count=each.count,
            late=int(counts.late[each.path]),
            trimmed=int(counts.trimmed[each.path]),
            again=int(counts.again[each.path]),
            flagged=None if counts.flagged is None else bool(counts.flagged[each.path]),
            threshold=test.threshold if test else None,
            s=test.calibration.s if test else None,
            snr=test.snr if test else each.snr,
            miss=test.miss if test else None,
            p_value=each.p_value,
            verdict=each.verdict,
            doubt=each.doubt.kind if each.doubt else None,
            reason=each.doubt.text if each.doubt else None,
            entered=report.entered,
            began_ns=report.span.from_ns if report.span else None,
            ended_ns=report.span.to_ns if report.span else None,
            lost_from_ns=report.lossy.window.from_ns if report.lossy else None,
            lost_to_ns=report.lossy.window.to_ns if report.lossy else None,
        )
        for each in report.verdicts
    ]


def conclusion_records(said: Conclusions, stamp: Moment) -> Iterator[written.PathConclusion | written.LinkConclusion]:
    """Make one record per path, then one per link, each in order."""
    for path in sorted(said.paths, key=lambda each: each.path):
        yield _path_record(said, path, stamp)
    for link in sorted(said.links, key=lambda each: str(each.link)):
        yield _link_record(said, link, stamp)


def _path_record(said: Conclusions, each: PathConclusion, stamp: Moment) -> written.PathConclusion:
    return written.PathConclusion(
        ts=stamp.text,
        mono_ns=stamp.mono_ns,
        epoch=said.epoch,
        expectation=said.expectation,
        plane=each.path.plane,
        src_leaf=each.path.src_leaf,
        spine=each.path.spine,
        dst_leaf=each.path.dst_leaf,
        verdict=each.verdict,
        by=each.by,
        flows=each.flows,
        expected=each.expected,
        count=each.count,
        p_value=each.p_value,
        doubt=each.doubt.kind if each.doubt else None,
        reason=each.doubt.text if each.doubt else None,
    )


def _link_record(said: Conclusions, each: LinkConclusion, stamp: Moment) -> written.LinkConclusion:
    naming = each.naming
    return written.LinkConclusion(
        ts=stamp.text,
        mono_ns=stamp.mono_ns,
        epoch=said.epoch,
        expectation=said.expectation,
        link=str(each.link),
        verdict=each.verdict,
        flows=each.flows,
        sent=each.sent,
        lost=each.lost,
        p_value=each.p_value,
        miss=each.miss,
        likelihood=each.likelihood,
        rate=each.rate,
        alternatives=[str(other) for other in each.alternatives],
        since_ns=naming.since_ns if naming else None,
        leaves=list(naming.leaves) if naming else [],
        packets=naming.packets if naming else 0,
        paths=naming.paths if naming else 0,
        doubt=each.doubt.kind if each.doubt else None,
        reason=each.doubt.text if each.doubt else None,
    )


def localize_record(accusation: Accusation, stamp: Moment) -> Localize:
    """Make the record of an accusation."""
    found = accusation.localization
    return Localize(
        ts=stamp.text,
        mono_ns=stamp.mono_ns,
        epoch=accusation.epoch,
        expectation=accusation.expectation,
        state=found.finding,
        links=[str(link) for link in found.links],
        candidates=[[str(link) for link in each] for each in found.candidates],
        fewest=list(found.fewest),
        estimates=[EstimateRecord(str(each.link), each.likelihood, each.rate) for each in found.estimates],
        deciding=[_deciding_record(each) for each in found.deciding],
        common=[str(cause) for cause in found.common.causes],
        common_candidates=[[str(cause) for cause in each] for each in found.common.candidates],
        evidence=[_evidence_record(each) for each in found.evidence],
        untimely=[_evidence_record(each) for each in found.untimely],
        pending=accusation.pending,
        insufficient=accusation.insufficient,
        first_named_ns=accusation.first_named_ns,
    )


def _evidence_record(evidence: Evidence) -> EvidenceRecord:
    path = evidence.path
    return EvidenceRecord(str(path), leaf_name(path.plane, path.dst_leaf), evidence.qpn, path.spine, evidence.verdict)


def _deciding_record(flow: DecidingFlow) -> DecidingRecord:
    return DecidingRecord(flow.path.src_leaf, flow.path.dst_leaf, str(flow.path), flow.rate, flow.packets)
