"""Tests docs/tutorial.ipynb."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
for needed in ("nbclient", "ipykernel", "pyarrow", "narwhals"):
    if find_spec(needed) is None:
        pytest.skip(f"needs {needed}", allow_module_level=True)

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


def kinds(cell: Any) -> list[Any]:
    """Returns the types of the outputs of a cell."""
    return [(output.output_type, sorted(output.get("data", {}))) for output in cell.outputs]


def test_tutorial_runs_and_shows_the_stored_kinds_of_outputs(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAECF_PROGRAM", program)
    executed = tmp_path / "executed.ipynb"
    # In a process of its own, because nbclient imports ipykernel, by which a process appears as a notebook.
    code = (
        "import sys, nbclient, nbformat; notebook = nbformat.read(sys.argv[1], 4); "
        "nbclient.NotebookClient(notebook, timeout=600).execute(); nbformat.write(notebook, sys.argv[2])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(NOTEBOOK), str(executed)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    stored, run = (nbformat.read(file, 4) for file in (NOTEBOOK, executed))
    for before, after in zip(stored.cells, run.cells, strict=True):
        if before.cell_type != "code":
            continue
        if "output-not-stored" in before.metadata.get("tags", []):
            assert not before.outputs and after.outputs
        else:
            assert kinds(before) == kinds(after) != []
    assert str(tmp_path) not in str([cell.get("outputs") for cell in run.cells[:-1]])
