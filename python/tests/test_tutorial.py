"""Tests docs/tutorial.ipynb."""

from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
for needed in ("ipykernel", "pyarrow", "narwhals"):
    pytest.importorskip(needed)

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


def kinds(cell: Any) -> list[Any]:
    """Returns the types of the outputs of a cell."""
    return [(output.output_type, sorted(output.get("data", {}))) for output in cell.outputs]


def test_tutorial_runs_and_shows_the_stored_kinds_of_outputs(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAECF_DIST", program)
    stored, run = (nbformat.read(NOTEBOOK, 4) for _ in range(2))
    nbclient.NotebookClient(run, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for before, after in zip(stored.cells, run.cells, strict=True):
        if before.cell_type != "code":
            continue
        if "output-not-stored" in before.metadata.get("tags", []):
            assert not before.outputs and after.outputs
        else:
            assert kinds(before) == kinds(after) != []
    assert str(tmp_path) not in str([cell.get("outputs") for cell in run.cells[:-1]])
