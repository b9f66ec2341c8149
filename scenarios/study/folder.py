"""Manages the folder of a study: finished runs, and the tables, figures and calibrations made of them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import yaml

from agent.core.config import SprayPolicy
from agent.spraycheck.statistics.calibration import FlowShape, Healthy, calibrate, measured_s
from results.errors import RecordError, RecordsError, TooLargeError
from results.files.reading import read_limited
from results.files.user_files import invoker, open_regular, open_to_append, open_to_change, rights_of, write_file
from results.files.yaml_document import MOST_BYTES, read_document
from results.study.tables import cells_table, roc_table, runs_table, write_csv
from scenarios.errors import UsageError
from scenarios.overwriting import require_no_link
from scenarios.study.model import Point, Study
from scenarios.study.score import Mode, Row, flaws_of


class CalibrationRecord(msgspec.Struct, frozen=True):
    """The evidence for one policy at one size of flow."""

    mode: str
    spray: str
    spines: int
    packets: int
    """Packets on each spine."""
    flows: int
    """Number of healthy flows."""
    dispersion: float
    """Variance of a path's count, in units of λ."""
    largest: float
    """Largest deficit of any path, in units of sqrt(λ)."""
    s_measured: float
    """Sensitivity that these flows require at a false-positive rate of `false_alarm` per flow."""
    s_in_use: float
    """Sensitivity of the test that judged them."""
    false_alarm: float
    """Allowed false-positive rate per flow."""
    false_alarm_bound: float
    """Upper 95 % bound of the false-positive rate if none occurred in this many flows."""


def calibrations_of(rows: Iterable[Mapping[str, Any]]) -> list[CalibrationRecord]:
    """Return one entry for each policy, size of flow and allowed false-positive rate of healthy runs by equal
    shares.
    """
    groups: dict[tuple[str, str, int, int, float], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["failure"] == "none" and row["expectation"] == "uniform" and row["outcome"] == "ok":
            groups[row["mode"], row["spray"], row["spines"], row["packets"], row["allowed_false_alarm"]].append(row)
    return [_record(*key, runs) for key, runs in groups.items() if any(run["good_scores"] for run in runs)]


def _record(
    mode: str, spray: str, spines: int, packets: int, false_alarm: float, runs: list[Mapping[str, Any]]
) -> CalibrationRecord:
    largest = np.array([score for run in runs for score in run["good_scores"]])
    dispersion = float(np.mean([run["good_dispersion"] for run in runs if run["good_dispersion"] is not None]))
    found = measured_s(Healthy(spines, largest, dispersion), false_alarm)
    in_use = calibrate(FlowShape(SprayPolicy(spray).code, packets * spines, spines), false_alarm).s
    return CalibrationRecord(
        mode, spray, spines, packets, found.flows, round(dispersion, 6), round(found.largest, 4), round(found.s, 4),
        round(in_use, 4), false_alarm, round(found.false_alarm_bound, 6),
    )  # fmt: skip


RESULTS = "results.jsonl"
"""One line per finished run; a study that is run again continues at the end."""


CONTENTS = (
    "study.yaml", RESULTS, "runs.csv", "cells.csv", "cells.jsonl", "roc.csv", "calibration.jsonl", "figures/", "runs/",
)  # fmt: skip
"""All files of a study's folder, in the order of docs/studies.md."""

_SOURCES, _KEPT_ELSEWHERE = ("study.yaml", RESULTS), "runs/"
"""Files that identify a study's folder; and those that may be a symbolic link, because nothing in them is replaced."""


class StudyFolder:
    """One study's folder; results are only appended, tables and figures are rewritten."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, study: Study) -> None:
        """Make the folder and write the study into it. Raises OSError, `UsageError` for a folder of another study."""
        self.require_of(study)
        with rights_of(invoker()):
            self.path.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(study.model_dump(mode="json", exclude_none=True), sort_keys=False, allow_unicode=True)
        write_file(self._place / "study.yaml", text.encode())
        self._cut_half_line()

    def require_of(self, study: Study) -> None:
        """Check the folder. Raises `UsageError` where it holds another study, an unreadable one, or other files."""
        self._require_own()
        if (other := self._name()) not in (None, study.name):
            raise UsageError(f"{self.path} holds the study {other!r}; name another --folder for {study.name!r}")

    def _require_own(self) -> None:
        """Check that tables and figures may be replaced: not through a symbolic link, nor where there is no study
        yet.
        """
        instead = "name another --folder"
        for name in CONTENTS:
            if name != _KEPT_ELSEWHERE:
                require_no_link(self.path / name.rstrip("/"), instead)
        holds = self.holds()
        if holds and not {*holds}.intersection(_SOURCES):
            raise UsageError(f"{self.path} holds {', '.join(holds)}, and no {RESULTS} of a study; {instead}")

    def _name(self) -> str | None:
        """Return the name of the study in the folder, if there is one. Raises `UsageError` if it cannot be read."""
        file = self.path / "study.yaml"
        try:
            document = read_document(read_limited(file, MOST_BYTES).decode())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(file, error.strerror or str(error)) from error
        except TooLargeError as error:
            raise _unreadable(file, error.reason) from error
        except UnicodeDecodeError as error:
            raise _unreadable(file, str(error)) from error
        found = document.values
        if document.flaws:
            raise _unreadable(file, f"line {document.flaws[0].line}: {document.flaws[0].wrong}")
        if not isinstance(found, dict) or not isinstance(found.get("name"), str):
            raise _unreadable(file, "empty" if found is None else "it has no `name`")
        return str(found["name"])

    def rows(self) -> list[dict[str, Any]]:
        """Read every finished run, its last row each. Raises `RecordsError` with every invalid line."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for row in self._lines():
            found[row["mode"], row["key"]] = row
        return list(found.values())

    def done(self, mode: Mode) -> set[str]:
        """Return keys of the points that need not run again: overloaded ones must."""
        return {row["key"] for row in self.rows() if row["mode"] == mode and row["outcome"] == "ok"}

    def append(self, row: Row) -> None:
        """Append a finished run, at once. Raises OSError."""
        with open_to_append(self._place / RESULTS) as file:
            file.write(msgspec.json.encode(row) + b"\n")

    def write_tables(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Write runs.csv, cells.csv, roc.csv, calibration.jsonl; return the cells and the curves. Raises OSError."""
        rows = self.rows()
        cells, roc = cells_table(rows), roc_table(rows)
        for name, lines in (("runs", runs_table(rows)), ("cells", cells), ("roc", roc)):
            write_csv(self._place / f"{name}.csv", lines)
        self._write_lines("cells.jsonl", cells)
        self._write_lines("calibration.jsonl", calibrations_of(rows))
        return cells, roc

    def draw(self, cells: list[dict[str, Any]], roc: list[dict[str, Any]]) -> list[Path]:
        """Draw every figure that the tables have data for; this loads matplotlib. Raises OSError."""
        import results.matplotlib_settings  # noqa: F401 - it loads matplotlib, before figures import it
        from results.study.figures import draw_figures

        return draw_figures(cells, roc, self._place / "figures")

    def holds(self) -> tuple[str, ...]:
        """Return names of what is in the folder now, as in docs/studies.md; folders end with a slash."""
        return tuple(name for name in CONTENTS if (self.path / name).exists())

    def _write_lines(self, name: str, lines: Iterable[Any]) -> None:
        write_file(self._place / name, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def _lines(self) -> Iterator[dict[str, Any]]:
        wrong = []
        with suppress(FileNotFoundError), open_regular(self.path / RESULTS) as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    continue
                try:
                    yield _row(line)
                except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                    wrong.append(RecordError(f"{self.path / RESULTS}:{number}", f"not a run of a study: {error}"))
        if wrong:
            raise RecordsError(tuple(wrong))

    def _cut_half_line(self) -> None:
        """End the incomplete line of a killed run, which would corrupt the next one."""
        with suppress(FileNotFoundError), open_to_change(self._place / RESULTS) as file:
            whole = file.read().rfind(b"\n") + 1
            file.truncate(whole)

    @property
    def _place(self) -> Path:
        """Return the folder itself, where `path` may be a symbolic link to it."""
        return self.path.resolve()


def _unreadable(file: Path, why: str) -> UsageError:
    return UsageError(
        f"{file} cannot be read as a study ({why}), so whose results are in the folder is not known; "
        "name another --folder, or move the file away if they are this study's"
    )


def _row(line: bytes) -> dict[str, Any]:
    """Decode a finished run. Raises `MsgspecError` with all keys that are missing or invalid; UnicodeDecodeError."""
    row = _with_its_key(msgspec.json.decode(line, type=dict[str, Any]))
    if lacking := [name for name in Row.__struct_fields__ if name not in row]:
        raise msgspec.ValidationError(f"it has no {', '.join(lacking)}")
    if flaws := list(flaws_of(msgspec.convert(row, Row))):
        raise msgspec.ValidationError(", ".join(flaws))
    return row


def _told_later(point: Point) -> dict[str, Any]:
    """Values that older rows lack."""
    return {
        "loss_policy": point.loss_policy,
        "strides": point.strides,
        "allowed_miss": point.miss,
        "allowed_false_alarm": point.false_alarm,
    }


def _with_its_key(row: dict[str, Any]) -> dict[str, Any]:
    """Complete an older row from its key. On a fabric a study's allowed error rates were never in force."""
    with suppress(msgspec.MsgspecError, TypeError):
        point = msgspec.json.decode(row.get("key"), type=Point)  # type: ignore[arg-type]
        if row.get("mode") == "fabric":
            point = point.on_fabric
        return _told_later(point) | row | {"key": point.key}
    return row
