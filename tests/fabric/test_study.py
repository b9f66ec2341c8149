"""The study of random gray links in short; `make study` runs it in full."""

import pytest
from click.testing import CliRunner

from tests.study.gray_links import main
from tests.support.namespaces import needs_root

pytestmark = [pytest.mark.alone, pytest.mark.root, needs_root]


def test_random_links_are_named_and_nobody_is_accused_without_a_fault() -> None:
    result = CliRunner().invoke(main, ["--scenario", "gray-link-small", "--faulty", "1", "--healthy", "1"])
    print(result.output)
    assert result.exit_code == 0, result.output
    assert "1 of 1 faults named; 0 of 2 runs accused a healthy link" in result.output
