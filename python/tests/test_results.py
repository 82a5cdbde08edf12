"""Results of several runs beside each other, from the folders of runs."""

import shutil
from pathlib import Path

import h5py
import pytest
from conftest import Page, Workspace

import vaecf


GROUPS = [f"{group}/{name}" for group in ("head", "tail") for name in ("ndcg@100", "recall@20")]


@pytest.fixture(name="runs", scope="module")
def _runs(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> list[vaecf.Run]:
    """Returns copies of two runs with their files of --per-user."""
    folder = tmp_path_factory.mktemp("results")
    for name in ("ease", "elsa"):
        shutil.copytree(workspace.folder / "runs" / name, folder / name)
        shutil.copy(workspace.folder / f"{name}.per-user.h5", folder / name / "per-user.h5")
    return [vaecf.Run(folder / "ease"), vaecf.Run(folder / "elsa")]


def test_leaderboard_has_each_metric_of_runs_and_baselines(runs: list[vaecf.Run]) -> None:
    table = vaecf.leaderboard(runs)
    assert table.index.tolist() == ["ndcg@100", "recall@20", "coverage@10", *GROUPS]
    assert table.columns.get_level_values(0).unique().tolist() == ["ease", "elsa", "popularity", "item-knn"]
    event = runs[1].last("test")
    assert table.loc["ndcg@100", "elsa"].tolist() == list(event["metrics"]["ndcg@100"].values())
    assert table.loc["recall@20", ("item-knn", "value")] == event["baselines"]["item_knn"]["metrics"]["recall@20"]["value"]
    assert table.loc["coverage@10", [("ease", "se"), ("popularity", "se")]].isna().all()
    assert vaecf.leaderboard(runs[0].path)["ease"].equals(table["ease"])


def test_untested_runs_have_no_leaderboard(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"event":"start"}\n')
    with pytest.raises(vaecf.InputError, match="was not tested; vaecf_dist .* --test does so"):
        vaecf.leaderboard(tmp_path)
    with pytest.raises(vaecf.InputError, match="at least one run"):
        vaecf.leaderboard([])


def test_differences_of_runs_are_those_of_their_files(runs: list[vaecf.Run]) -> None:
    table = vaecf.compare(*runs, samples=200)
    assert table.index.tolist() == [("elsa", metric) for metric in ("ndcg@100", "recall@20", *GROUPS)]
    board = vaecf.leaderboard(runs)
    expected = board.loc["ndcg@100", ("elsa", "value")] - board.loc["ndcg@100", ("ease", "value")]
    assert table.loc[("elsa", "ndcg@100"), "difference"] == pytest.approx(expected)


def test_runs_that_cannot_be_compared_are_input_errors(runs: list[vaecf.Run], tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(runs[1].path, other)
    with h5py.File(other / "per-user.h5", "r+") as file:
        file.attrs["dataset_checksum"] = "0"
    with pytest.raises(vaecf.InputError, match="are of different datasets"):
        vaecf.compare(runs[0], other)
    shutil.copy(runs[0].path / "per-user.h5", other / "per-user.h5")
    with pytest.raises(vaecf.InputError, match="is not of best.h5 of this run"):
        vaecf.compare(runs[0], other)
    (other / "per-user.h5").unlink()
    with pytest.raises(vaecf.InputError, match="does not exist; write it with: vaecf_dist .* --per-user"):
        vaecf.compare(runs[0], other)
    with pytest.raises(vaecf.InputError, match="at least two runs"):
        vaecf.compare(runs[0])


def test_report_is_shown_in_a_notebook_or_a_browser(
    runs: list[vaecf.Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = vaecf.report(runs)
    page = Page(report.html)
    assert page.headings[0] == "2 runs: ease, elsa" and "groups-history" in page.tables
    frame = report._repr_html_()  # pylint: disable=protected-access
    assert frame.count("<") == 4 and "&lt;!DOCTYPE html&gt;" in frame
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report.show()
    assert opened[0].startswith(tmp_path.as_uri())
    assert Path(opened[0].removeprefix("file://")).read_text(encoding="utf-8") == report.html
