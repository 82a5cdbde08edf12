"""Runs the examples of docs/PYTHON.md in their order, as printed."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "PYTHON.md"


def write_tables(folder: Path) -> None:
    """Writes the files that the examples read: events of 60 users, those of a further week, and the items."""
    names = [f"B-{item:03}" for item in range(40)]
    events = [
        (
            f"ann{user}",
            names[(7 * user + step * step * (1 + user % 3)) % 40],
            1 + (user + step) % 5,
            1767225600 + 86400 * step,
        )
        for user in range(60)
        for step in range(30)
    ]
    events.append(("ann0", "B-029", 5, 1767225600))
    table = pd.DataFrame(events, columns=["user", "item", "rating", "time"])
    table.to_csv(folder / "own.csv", index=False)
    table.assign(time=table.time + 30 * 86400).head(600).to_csv(folder / "week.csv", index=False)
    genres = ["drama", "comedy"] * 20
    pd.DataFrame({"item": names, "title": names, "genre": genres}).to_csv(folder / "items.csv", index=False)


def test_examples_of_the_tour_run_in_their_order(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in ("pyarrow", "narwhals"):
        if find_spec(needed) is None:
            pytest.skip(f"needs {needed}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VAECF_PROGRAM", program)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "data").mkdir()
    write_tables(tmp_path / "data")
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) >= 6
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    assert list(names["ease"].test.index)
    assert "frame-elsa" in (tmp_path / "report.html").read_text()
