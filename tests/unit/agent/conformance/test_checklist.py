"""Every line of the conformance list is a module of tests of its number."""

from pathlib import Path

TESTS = Path(__file__).parents[3]
LINES = 15
ON_A_FABRIC = {14, 15}
"""These need switches."""


def test_every_line_has_its_tests() -> None:
    for number in range(1, LINES + 1):
        folder = TESTS / ("fabric/conformance" if number in ON_A_FABRIC else "unit/agent/conformance")
        (module,) = folder.glob(f"test_{number:02}_*.py")
        text = module.read_text()
        assert "\ndef test_" in text, module
        assert text.startswith('"""'), f"{module}: its docstring states the requirement"
