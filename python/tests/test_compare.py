"""`vaecf compare`: paired differences and tests of recommenders."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from conftest import Workspace
from scipy import stats

import vaecf
from vaecf.cli import main
from vaecf.commands.compare import PerUser, bootstrap_intervals, compare, holm, t_test, wilcoxon

DARWIN = np.array([6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75])
"""Differences in height of crossed and self-fertilized maize, in eighths of an inch: Fisher, 1935."""


def _write(
    path: Path,
    values: Any,
    checksum: str = "1",
    users: Any = None,
    metric: str = "ndcg@100",
    targets: Any = None,
    split: str = "test",
) -> PerUser:
    """Writes a file of --per-user. `values`: of the one metric, or a dictionary of metrics."""
    columns = values if isinstance(values, dict) else {metric: values}
    with h5py.File(path, "w") as file:
        file.attrs.update(model="ease", checkpoint=f"runs/{path.stem}/checkpoints/best.h5", groups="", split=split)
        file.attrs.update(metrics=", ".join(columns), dataset_checksum=checksum)
        count = len(next(iter(columns.values())))
        file["user_id"] = np.arange(count) if users is None else users
        file["targets"] = np.ones(count, np.int64) if targets is None else targets
        for name, column in columns.items():
            file[name] = column
    return PerUser(path)


def _row(table: pd.DataFrame, file: PerUser, metric: str = "ndcg@100") -> pd.Series:
    return table.loc[(str(file.path), metric)]


def test_difference_and_its_standard_error_are_paired(tmp_path: Path) -> None:
    a = _write(tmp_path / "a.h5", [0.1, 0.5, 0.9, 0.3])
    b = _write(tmp_path / "b.h5", [0.2, 0.7, 1.0, 0.3])
    row = _row(compare(a, [b]), b)
    # Differences .1, .2, .1, 0: mean .1, deviation sqrt(.02 / 3).
    assert (row["reference"], row["mean"]) == (pytest.approx(0.45), pytest.approx(0.55))
    assert row["difference"] == pytest.approx(0.1)
    assert row["se"] == pytest.approx((0.02 / 3) ** 0.5 / 2)
    assert (row["better"], row["worse"]) == (0.75, 0.0)
    assert 0 <= row["low"] < 0.1 < row["high"] <= 0.2
    assert row["t_p"] == pytest.approx(stats.ttest_rel([0.2, 0.7, 1.0, 0.3], [0.1, 0.5, 0.9, 0.3]).pvalue)
    back = _row(compare(b, [a]), a)
    assert back["difference"] == pytest.approx(-row["difference"]) and back["worse"] == 0.75


def test_smaller_popularity_is_better(tmp_path: Path) -> None:
    a = _write(tmp_path / "a.h5", [10.0, 20.0, 30.0, 40.0], metric="mean_popularity@5")
    b = _write(tmp_path / "b.h5", [9.0, 18.0, 27.0, 41.0], metric="mean_popularity@5")
    row = _row(compare(a, [b]), b, "mean_popularity@5")
    assert (row["better"], row["worse"]) == (0.75, 0.25)
    assert row["difference"] == pytest.approx(-1.25)


def test_users_are_matched_by_id_in_any_order(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    users = np.array([f"u{n}" for n in range(300)], dtype=h5py.string_dtype())
    first = random.random(300)
    second, order = first + random.normal(0.01, 0.02, 300), random.permutation(300)
    a = _write(tmp_path / "a.h5", first, users=users)
    b = _write(tmp_path / "b.h5", second, users=users)
    shuffled = _write(tmp_path / "shuffled.h5", second[order], users=users[order])
    expected, row = _row(compare(a, [b]), b), _row(compare(a, [shuffled]), shuffled)
    assert expected.equals(row)
    # Rows that are paired in the order of the files have the same difference, but twenty times the error.
    wrong = _write(tmp_path / "wrong.h5", second[order], users=users)
    assert _row(compare(a, [wrong]), wrong)["se"] > 15 * row["se"]


def test_p_values_of_darwins_maize_are_the_published_ones() -> None:
    # Fisher: t = 2.148 with 14 degrees of freedom, p .0497. Wilcoxon: the smaller sum is 24.
    assert DARWIN.mean() / (DARWIN.std(ddof=1) / 15**0.5) == pytest.approx(2.148, abs=5e-4)
    assert t_test(DARWIN) == pytest.approx(0.0497, abs=5e-5)
    assert wilcoxon(DARWIN) == pytest.approx(2 * stats.norm.sf((60 - 24) / (15 * 16 * 31 / 24) ** 0.5))


def test_zeros_are_split_and_ties_corrected_in_the_signed_rank_test() -> None:
    # Ranks by size: zeros 1.5 twice, then 3 to 8. Sum of the positive ones 28 + 1.5, mean 18; variance
    # 8 * 9 * 17 / 24 less (2^3 - 2) / 48 for the two zeros.
    split = wilcoxon(np.array([0, 0, 1, 2, -3, 4, 5, 6]))
    assert split == pytest.approx(2 * stats.norm.sf(11.5 / (51 - 6 / 48) ** 0.5))
    # .3 - .2 and .2 - .1 are not the same number: ranks 2, 2, 2, 4 with the sum 8 of the positive ones.
    tied = wilcoxon(np.array([0.3 - 0.2, 0.2 - 0.1, 0.1 - 0.2, 0.5]))
    assert tied == pytest.approx(2 * stats.norm.sf(3 / (4 * 5 * 9 / 24 - (27 - 3) / 48) ** 0.5))


def test_p_values_of_no_difference_are_one() -> None:
    assert (t_test(np.zeros(5)), wilcoxon(np.zeros(5))) == (1.0, 1.0)
    assert t_test(np.ones(5)) == 0.0


def test_holm_multiplies_by_the_number_of_hypotheses_left() -> None:
    # .01 * 4, .02 * 3, max(.03 * 2, .06), max(.05 * 1, .06), in another order.
    assert holm(np.array([0.03, 0.01, 0.05, 0.02])) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    # Of R: p.adjust(c(.01, .02, .03, .04, .05), "holm"), which has a run of equal values.
    assert holm(np.array([0.01, 0.02, 0.03, 0.04, 0.05])) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert holm(np.array([0.7, 0.6])) == pytest.approx([1.0, 1.0])


def test_tests_are_adjusted_over_all_files_and_metrics(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    a, b, c = (
        _write(tmp_path / f"{name}.h5", {metric: random.normal(mean, 1, 50) for metric in ("ndcg@10", "recall@20")})
        for name, mean in (("a", 0.0), ("b", 0.4), ("c", 0.9))
    )
    table = compare(a, [b, c])
    assert list(table.index) == [(str(file.path), metric) for file in (b, c) for metric in ("ndcg@10", "recall@20")]
    for test, function in (("t", stats.ttest_rel), ("wilcoxon", stats.wilcoxon)):
        options = {"zero_method": "zsplit", "method": "approx"} if test == "wilcoxon" else {}
        expected = [
            function(file.table[metric], a.table[metric], **options).pvalue
            for file in (b, c)
            for metric in ("ndcg@10", "recall@20")
        ]
        assert table[f"{test}_p"].to_numpy() == pytest.approx(np.array(expected), rel=1e-9)
        assert table[f"{test}_holm"].to_numpy() == pytest.approx(holm(np.array(expected)), rel=1e-9)
        assert (table[f"{test}_holm"] > table[f"{test}_p"]).any()


def test_bootstrap_interval_of_many_users_is_that_of_the_normal_distribution() -> None:
    values = np.random.default_rng(1).normal(0.3, 2.0, (4000, 2))
    error = values.std(axis=0) / 4000**0.5
    low, high = bootstrap_intervals(values)
    assert np.abs(low - (values.mean(axis=0) - 1.96 * error)).max() < 0.15 * error.max()
    assert np.abs(high - (values.mean(axis=0) + 1.96 * error)).max() < 0.15 * error.max()
    again = bootstrap_intervals(values)
    assert (low == again[0]).all() and (high == again[1]).all()
    assert (low != bootstrap_intervals(values, seed=1)[0]).all()
    narrow = bootstrap_intervals(values, level=0.5)
    assert (low < narrow[0]).all() and (narrow[0] < narrow[1]).all() and (narrow[1] < high).all()


def test_bootstrap_interval_is_that_of_scipy() -> None:
    random = np.random.default_rng(4)
    values = random.exponential(1.0, 60)
    found = stats.bootstrap((values,), np.mean, n_resamples=20000, method="percentile", random_state=random)
    low, high = bootstrap_intervals(values[:, None], samples=20000)
    error = values.std() / 60**0.5
    assert low[0] == pytest.approx(found.confidence_interval.low, abs=0.06 * error)
    assert high[0] == pytest.approx(found.confidence_interval.high, abs=0.06 * error)


def test_bootstrap_interval_is_of_the_users_with_a_value() -> None:
    values = np.full((50, 1), 0.5)
    values[::2] = np.nan  # users without a target in the group
    low, high = bootstrap_intervals(values, samples=200)
    assert low.tolist() == high.tolist() == [0.5]


def test_files_of_the_program_are_compared(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b, c = (str(workspace.folder / f"{name}.per-user.h5") for name in ("mult_dae", "ease", "item_knn"))
    assert main(["compare", a, b, c, "--csv", str(tmp_path / "c.csv")]) == 0
    text = capsys.readouterr().out
    assert "ndcg@100" in text and "recall@20" in text and "coverage" not in text
    assert f"1: {a} (mult_dae), the reference" in text and f"3: {c} (item_knn)\n" in text
    table = pd.read_csv(tmp_path / "c.csv", index_col=["file", "metric"])
    assert len(table) == 12 and "over the 4 rows, and over those of the head and of the tail" in text
    for file in (b, c):
        for group in ("head/", "tail/"):
            rows = [(file, f"{group}{metric}") for metric in ("ndcg@100", "recall@20")]
            assert (table.loc[rows, "t_holm"] >= table.loc[rows, "t_p"]).all()
    groups = vaecf.Run(workspace.folder / "runs" / "ease").groups.xs(("test", "model", "tail"), level=("event", "of", "group"))
    assert table.loc[(b, "tail/ndcg@100"), "mean"] == pytest.approx(groups["ndcg@100"].iloc[-1], abs=1e-9)
    for name, path, column in (("mult_dae", b, "reference"), ("ease", b, "mean"), ("item_knn", c, "mean")):
        reported = vaecf.Run(workspace.folder / "runs" / name).test["ndcg@100"].iloc[-1]
        assert table.loc[(path, "ndcg@100"), column] == pytest.approx(reported, abs=1e-9)


def test_files_that_cannot_be_compared_are_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = _write(tmp_path / "a.h5", [0.1, 0.2])
    with pytest.raises(vaecf.InputError, match="different datasets"):
        compare(a, [_write(tmp_path / "b.h5", [0.1, 0.2], checksum="2")])
    with pytest.raises(vaecf.InputError, match="b.h5: is of the validation users"):
        compare(a, [_write(tmp_path / "b.h5", [0.1, 0.2], split="validation")])
    with pytest.raises(vaecf.InputError, match="different users: 1 are only in the first file, 2 only in the second"):
        compare(a, [_write(tmp_path / "b.h5", [0.1, 0.2, 0.3], users=[1, 2, 3])])
    with pytest.raises(vaecf.InputError, match="b.h5: user 1 is in it twice"):
        compare(a, [_write(tmp_path / "b.h5", [0.1, 0.2], users=[1, 1])])
    with pytest.raises(vaecf.InputError, match="different targets"):
        compare(a, [_write(tmp_path / "b.h5", [0.1, 0.2], targets=[1, 2])])
    with pytest.raises(vaecf.InputError, match="no metric in common"):
        compare(a, [_write(tmp_path / "b.h5", [0.1, 0.2], metric="recall@20")])
    _write(tmp_path / "c.h5", [0.1, 0.2], users=[0, 2])
    assert main(["compare", str(tmp_path / "a.h5"), str(tmp_path / "a.h5"), str(tmp_path / "c.h5")]) == 2
    assert "c.h5 have different users" in capsys.readouterr().err
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["user_id"] = [1]
    assert main(["compare", str(tmp_path / "a.h5"), str(tmp_path / "other.h5")]) == 2
    assert "--per-user" in capsys.readouterr().err
    # A folder is that of a run.
    run = tmp_path / "run"
    run.mkdir()
    assert main(["compare", str(tmp_path / "a.h5"), str(run)]) == 2
    assert f"{run}/per-user.h5: does not exist; write it with: vaecf_dist {run}/config.yaml --test" in capsys.readouterr().err
    _write(run / "per-user.h5", [0.3, 0.4])
    assert main(["compare", str(tmp_path / "a.h5"), str(run)]) == 0
    assert main(["compare", str(tmp_path / "a.h5"), str(tmp_path / "a.h5"), "--level", "2"]) == 2
