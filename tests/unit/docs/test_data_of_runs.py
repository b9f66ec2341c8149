"""The example of api.md that reads a run's folder gives one number a path that was judged."""

import re
from pathlib import Path
from typing import Any

import pytest

from results.files.event_log import read_records, write_records
from tests.support.run_folder import write_run

API = Path(__file__).parents[3] / "docs" / "api.md"


def test_data_of_runs_are_of_the_expectation_that_decides_and_of_judged_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "runs" / "latest")
    records = list(read_records(run.detect))
    first = next(each for each in records if each["event"] == "DETECT")
    declared = [each | {"expectation": "declared"} for each in records if each["event"] == "DETECT"]
    unused = first | {"verdict": "insufficient", "lambda": 0.0}
    run.detect.unlink()
    write_records(run.detect, [*records, *declared, unused], run.name, 1)
    (block,) = re.findall(r"^## Data of runs$.*?```python\n(.*?)```", API.read_text(), re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(block, found)
    assert len(found["short"]) == 256
    assert sorted(found["short"])[-3:] == pytest.approx([0, 40 / 4096, 40 / 4096])
