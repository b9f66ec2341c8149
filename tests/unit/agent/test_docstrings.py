"""Public functions of the agent say what their signatures cannot: shapes of arrays, and errors they raise."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
SHAPE = re.compile(r"\([\w<= +-]+,( \w+)*\)")
"""As `(n,)`, `(n, stride)` or `(stop - start,)`."""
FOLDERS = ("core", "host")


def public_functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions of a module and methods of its public classes, by name."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                    yield f"{node.name}.{item.name}", item


def lacks(function: ast.FunctionDef) -> list[str]:
    """What a docstring leaves out."""
    told = ast.get_docstring(function) or ""
    returns = ast.unparse(function.returns) if function.returns else ""
    has_arrays = "NDArray" in f"{ast.unparse(function.args)} {returns}"
    raises = any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(function))
    found = ["shapes"] if has_arrays and not SHAPE.search(told) else []
    return found + (["errors"] if raises and "Raise" not in told else [])


def test_shapes_and_errors_are_told() -> None:
    missing = [
        f"{path.relative_to(ROOT)} {name}: {', '.join(found)}"
        for folder in FOLDERS
        for path in sorted((ROOT / "agent" / folder).rglob("*.py"))
        for name, function in public_functions(ast.parse(path.read_text()))
        if (found := lacks(function))
    ]
    assert missing == []
