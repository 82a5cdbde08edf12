"""Modules of the package do not import each other in circles, also not within functions."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "vaecf"


def imports_of(file: Path, modules: set[str]) -> set[str]:
    """Returns the modules of the package that a file imports, by dotted name below vaecf."""
    found = set()
    folder = file.relative_to(PACKAGE).parent.parts
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        base = [*folder[: len(folder) - node.level + 1], *(node.module.split(".") if node.module else [])]
        named = {".".join([*base, name.name]) for name in node.names} & modules
        found |= named or {".".join(base)} & modules
    return found


def test_imports_have_no_circle() -> None:
    files = {".".join(file.relative_to(PACKAGE).with_suffix("").parts): file for file in PACKAGE.rglob("*.py")}
    files = {name: file for name, file in files.items() if not name.endswith("__init__")}
    graph = {name: imports_of(file, set(files)) for name, file in files.items()}
    assert {"page", "run"} <= graph["runs_page"] and "runs_page" in graph["results"]
    order = list(TopologicalSorter(graph).static_order())  # Throws CycleError for a circle.
    assert len(order) == len(files)
