"""Results of several runs beside each other, from the folders of runs."""

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import pytest
from conftest import Page, Workspace

import vaecf
from vaecf import tested_runs


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
    metrics = [("all", name) for name in ("ndcg@100", "recall@20", "coverage@10")]
    assert table.columns.droplevel(2).unique().tolist() == metrics + [tuple(name.split("/")) for name in GROUPS]
    assert set(table.index) == {("data", name) for name in ("ease", "elsa", "popularity", "item-knn")}
    assert table[("all", "ndcg@100", "value")].is_monotonic_decreasing
    event = runs[1].last("test")
    assert table.loc[("data", "elsa"), ("all", "ndcg@100")].tolist() == list(event["metrics"]["ndcg@100"].values())
    of_baseline = event["baselines"]["item_knn"]
    assert table.loc[("data", "item-knn"), ("all", "recall@20", "value")] == of_baseline["metrics"]["recall@20"]["value"]
    tail = of_baseline["groups"]["tail"]["metrics"]["recall@20"]
    assert table.loc[("data", "item-knn"), ("tail", "recall@20")].tolist() == list(tail.values())
    assert ("all", "coverage@10", "se") not in table
    assert vaecf.leaderboard(runs[0].path).loc[("data", "ease")].equals(table.loc[("data", "ease")])


def run_with_test(folder: Path, dataset: str, file: str, test: dict[str, Any]) -> Path:
    """Writes the folder of a run with a test of these fields, and returns it. `dataset`: the checksum of the dataset."""
    folder.mkdir()
    start = {"event": "start", "id": folder.name, "name": folder.name, "tasks": ["train"], "dataset_checksum": dataset}
    events = [start, {"event": "test", "epoch": 1, **test}]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    (folder / "config.yaml").write_text(f"data: {{file: {file}}}\n")
    return folder


def test_leaderboard_is_sorted_within_each_dataset(tmp_path: Path) -> None:
    folders = []
    for name, dataset, ndcg, gini in (("a", "1", 0.2, 0.5), ("b", "2", 0.4, 0.6), ("c", "1", 0.3, 0.7)):
        values = {"ndcg@10": {"value": ndcg, "se": 0.1}, "gini@10": {"value": gini}}
        new = {"new_items": {"metrics": {"ndcg@10": {"value": 0.1, "se": 0.02, "random": 0.03}}}}
        baselines = {"popularity": {"metrics": {"ndcg@10": {"value": 0.25, "se": 0.1}}}}
        test = {"metrics": values, "groups": new, "baselines": baselines}
        folders.append(run_with_test(tmp_path / name, dataset, f"data/own{dataset if name == 'b' else ''}.h5", test))
    table = vaecf.leaderboard(folders)
    assert table.index.tolist() == [("own", "c"), ("own", "popularity"), ("own", "a"), ("own2", "b"), ("own2", "popularity")]
    assert table.loc[("own", "a"), ("new_items", "ndcg@10")].tolist() == [0.1, 0.02, 0.03]
    assert table["all"].columns.tolist() == [("ndcg@10", "value"), ("ndcg@10", "se"), ("gini@10", "value")]
    order = vaecf.leaderboard(folders, sort="gini@10").loc["own"].index.tolist()
    assert order == ["a", "c", "popularity"]
    with pytest.raises(vaecf.InputError, match="sort='ndcg@5' is not a metric of these runs, which are ndcg@10, gini@10"):
        vaecf.leaderboard(folders, sort="ndcg@5")
    (folders[1] / "config.yaml").write_text("data: {file: other/own.h5}\n")
    assert vaecf.leaderboard(folders).index.get_level_values("dataset").unique().tolist() == ["own (1)", "own (2)"]


def test_different_baselines_of_one_name_are_all_shown(tmp_path: Path) -> None:
    def results(ndcg: float) -> dict[str, Any]:
        return {"metrics": {"ndcg@10": {"value": ndcg, "se": 0.1}}}

    baselines = {"a": 0.25, "b": 0.25, "c": 0.2}  # of c with other settings
    runs = [
        vaecf.Run(run_with_test(tmp_path / name, "1", "data/own.h5", results(0.3) | {"baselines": {"item_knn": results(ndcg)}}))
        for name, ndcg in baselines.items()
    ]
    shown = {"a": 0.3, "b": 0.3, "c": 0.3, "item-knn": 0.25, "item-knn (c)": 0.2}
    assert vaecf.leaderboard(runs).loc["own"][("all", "ndcg@10", "value")].to_dict() == shown
    columns, _ = tested_runs.test_columns(runs)
    assert {title: values["ndcg@10"][0] for title, values in columns.items()} == shown


def test_untested_runs_have_no_leaderboard(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"event":"start"}\n')
    with pytest.raises(vaecf.InputError, match="was not tested; vaecf_dist .* --test does so"):
        vaecf.leaderboard(tmp_path)
    with pytest.raises(vaecf.InputError, match="at least one run"):
        vaecf.leaderboard([])


def test_differences_of_runs_are_those_of_their_files(runs: list[vaecf.Run]) -> None:
    table = vaecf.compare(*runs, samples=200)
    assert table.index.tolist() == [("elsa", metric) for metric in ("ndcg@100", "recall@20", *GROUPS)]
    board = vaecf.leaderboard(runs).loc["data"][("all", "ndcg@100", "value")]
    expected = board["elsa"] - board["ease"]
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
