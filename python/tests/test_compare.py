"""`vaecf compare`: paired differences of two models."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from conftest import Workspace

import vaecf
from vaecf.cli import main
from vaecf.compare import PerUser, bootstrap_interval, compare


def _write(path: Path, values: Any, checksum: str = "1", users: Any = None, metric: str = "ndcg@100") -> PerUser:
    with h5py.File(path, "w") as file:
        file.attrs.update(model="ease", checkpoint=f"runs/{path.stem}/checkpoints/best.h5", metrics=metric, groups="")
        file.attrs["dataset_checksum"] = checksum
        file["user_id"] = np.arange(len(values)) if users is None else users
        file[metric] = values
    return PerUser(path)


def test_difference_and_its_standard_error_are_paired(tmp_path: Path) -> None:
    a = _write(tmp_path / "a.h5", [0.1, 0.5, 0.9, 0.3])
    b = _write(tmp_path / "b.h5", [0.2, 0.7, 1.0, 0.3])
    row = compare(a, b).loc["ndcg@100"]
    # Differences .1, .2, .1, 0: mean .1, deviation sqrt(.02 / 3).
    assert row["difference"] == pytest.approx(0.1)
    assert row["se"] == pytest.approx((0.02 / 3) ** 0.5 / 2)
    assert (row["better"], row["worse"]) == (0.75, 0.0)
    assert 0 <= row["low"] < 0.1 < row["high"] <= 0.2
    back = compare(b, a).loc["ndcg@100"]
    assert back["difference"] == pytest.approx(-row["difference"]) and back["worse"] == 0.75


def test_smaller_popularity_is_better(tmp_path: Path) -> None:
    a = _write(tmp_path / "a.h5", [10.0, 20.0, 30.0, 40.0], metric="popularity@5")
    b = _write(tmp_path / "b.h5", [9.0, 18.0, 27.0, 41.0], metric="popularity@5")
    row = compare(a, b).loc["popularity@5"]
    assert (row["better"], row["worse"]) == (0.75, 0.25)
    assert row["difference"] == pytest.approx(-1.25)


def test_bootstrap_interval_of_many_users_is_that_of_the_normal_distribution() -> None:
    values = np.random.default_rng(1).normal(0.3, 2.0, 4000)
    error = values.std() / 4000**0.5
    low, high = bootstrap_interval(values)
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)
    assert bootstrap_interval(values) == (low, high)
    narrow = bootstrap_interval(values, level=0.5)
    assert low < narrow[0] < narrow[1] < high


def test_files_of_the_program_are_compared(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (str(workspace.folder / f"{name}.per-user.h5") for name in ("mult_dae", "ease"))
    assert main(["compare", a, b, "--csv", str(tmp_path / "c.csv")]) == 0
    text = capsys.readouterr().out
    assert "ndcg@100" in text and "recall@20" in text and "coverage" not in text
    table = pd.read_csv(tmp_path / "c.csv", index_col="metric")
    for name, column in (("mult_dae", "a"), ("ease", "b")):
        reported = vaecf.Run(workspace.folder / "runs" / name).test["ndcg@100"].iloc[-1]
        assert table.loc["ndcg@100", column] == pytest.approx(reported, abs=1e-9)


def test_files_that_cannot_be_compared_are_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = _write(tmp_path / "a.h5", [0.1, 0.2])
    with pytest.raises(vaecf.InputError, match="different datasets"):
        compare(a, _write(tmp_path / "b.h5", [0.1, 0.2], checksum="2"))
    with pytest.raises(vaecf.InputError, match="different users"):
        compare(a, _write(tmp_path / "b.h5", [0.1, 0.2], users=[1, 0]))
    with pytest.raises(vaecf.InputError, match="no metric in common"):
        compare(a, _write(tmp_path / "b.h5", [0.1, 0.2], metric="recall@20"))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["user_id"] = [1]
    assert main(["compare", str(tmp_path / "a.h5"), str(tmp_path / "other.h5")]) == 2
    assert "--per-user" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "a.h5"), str(tmp_path / "a.h5"), "--level", "2"]) == 2
