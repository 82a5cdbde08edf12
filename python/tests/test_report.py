"""`vaecf report`: the page is parsed, and its numbers are those of the events."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from conftest import SCHEMA, Page, Workspace

import vaecf
from vaecf.charts import MAX_POINTS, thin
from vaecf.cli import main
from vaecf.phases import timeline_phases
from vaecf.runs_page import group_means
from vaecf.solutions_table import LIMITS, at_edge


def _metrics(values: dict[str, float]) -> dict[str, dict[str, float]]:
    return {name: {"value": value} for name, value in values.items()}


def _write_run(folder: Path, epochs: int, name: str = "long", model: str = "mult_vae", **test: Any) -> Path:
    random = np.random.default_rng(3)
    events: list[dict[str, Any]] = [{"event": "start", "tasks": ["train"], "name": name, "users": 10, "items": 5}]
    for epoch in range(1, epochs + 1):
        noise = float(random.normal())
        losses = {"loss": 300 + noise, "nll": 290 + noise, "kl": 10 + noise, "beta": 0.2 * epoch / epochs}
        events.append({"event": "epoch", "epoch": epoch, **losses, "seconds": 1.0, "users_per_second": 1e4 + noise})
        metrics = {f"{m}@{k}": 0.3 + 0.01 * noise for m, k in (("ndcg", 100), ("recall", 20), ("recall", 50))}
        events.append({"event": "validation", "epoch": epoch, "metrics": _metrics(metrics)})
    if test:
        others = {name: test.pop(name) for name in ("left_out", "baselines") if name in test}
        events.append({"event": "test", "epoch": epochs, "users": 10, "metrics": _metrics(test), **others})
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (folder / "config.yaml").write_text(f"name: {name}\nmodel: {{type: {model}}}\nvalidation: {{select: ndcg@100}}\n")
    return folder


@pytest.fixture(name="undrawn")
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the charts of pages empty, because drawing takes most of the time."""
    monkeypatch.setattr("vaecf.charts.svg_text", lambda figure, chart: "<svg></svg>")


def test_page_of_one_run_has_every_part(workspace: Workspace, tmp_path: Path) -> None:
    run = workspace.train("timed", ["train.epochs=4"], "--timeline", "timed.json", "--per-user", "timed.per-user.h5")
    workspace.call(
        "config.yaml", "--benchmark", "-q", "--set", "name=timed", "--set", "train.epochs=4",
        "--set", "benchmark.seconds=0.2", "--set", "benchmark.warm_up_seconds=0.05",
    )  # fmt: skip
    page_file = tmp_path / "report.html"
    options = ["--timeline", str(workspace.folder / "timed.json"), "--plots", str(tmp_path / "plots")]
    per_user = ["--per-user", str(workspace.folder / "timed.per-user.h5")]
    assert main(["report", str(run), "-o", str(page_file), *options, *per_user]) == 0
    text = page_file.read_text()
    page = Page(text)
    page.check_self_contained(text)
    sections = ["Summary", "Test", "Curves", "Time by phase", "Quality by users and items", "Configuration"]
    assert page.headings == ["Run timed", *sections]
    # One row per metric, with the model and the baselines.
    event = vaecf.Run(run).last("test")
    head, *rows = page.tables["test"]
    assert head == ["metric", "timed", "popularity", "item-knn"]
    groups = [f"{group}/{name}" for group in ("head", "tail") for name in ("ndcg@100", "recall@20")]
    assert [row[0] for row in rows] == ["ndcg@100", "recall@20", "coverage@10", *groups]
    ndcg = event["metrics"]["ndcg@100"]
    cells = {row[0]: row for row in rows}
    assert cells["ndcg@100"][1] == f"{ndcg['value']:.4f} ± {ndcg['se']:.4f}"
    assert cells["recall@20"][3].startswith(f"{event['baselines']['item_knn']['metrics']['recall@20']['value']:.4f}")
    # One chart per curve, with an accessible name.
    curves = ["Loss", "Negative log-likelihood", "KL divergence", "Weight of KL"]
    curves += [f"{row[0]} on validation users" for row in rows if "/" not in row[0]] + ["Training speed"]
    assert page.captions[: len(curves)] == curves
    assert len(page.svgs) == len(page.captions) == len(curves) + 4
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in page.svgs)
    benchmark = vaecf.Run(run).last("benchmark")
    phases = {row[0]: row[1] for row in page.tables["phases-step"][1:]}
    assert list(phases) == ["input", "forward", "loss", "backward", "all-reduce", "optimizer"]
    assert phases["loss"] == f"{1e3 * benchmark['phase_seconds']['loss']:,.3f}"
    assert "run: validation" in {row[0] for row in page.tables["phases-timeline"]}
    assert sum(int(row[1]) for row in page.tables["groups-history"][1:]) == 60
    assert ["train.epochs", "4"] in page.tables["configuration"]
    # Dark mode: colors are variables or that of the text, also in the charts.
    assert "prefers-color-scheme:dark" in text and "width=device-width" in text
    assert not re.search(r"#[0-9a-f]{6}", text[text.index("<body>") :])
    files = sorted((tmp_path / "plots").glob("*.svg"))
    assert len(files) == len(page.svgs)
    assert all("prefers-color-scheme:dark" in file.read_text() for file in files)


def test_page_of_three_runs_shows_them_beside_each_other(workspace: Workspace, tmp_path: Path) -> None:
    names = ["mult_vae", "recvae", "ease"]
    runs = [str(workspace.folder / "runs" / name) for name in names]
    per_user = [a for name in names for a in ("--per-user", str(workspace.folder / f"{name}.per-user.h5"))]
    assert main(["report", *runs, "-o", str(tmp_path / "r.html"), *per_user]) == 0
    text = (tmp_path / "r.html").read_text()
    page = Page(text)
    page.check_self_contained(text)
    assert page.tables["summary"][0] == ["", *names]
    # Runs on one dataset share the columns of baselines.
    assert page.tables["test"][0] == ["metric", *names, "popularity", "item-knn"]
    keys = {row[0]: row[1:] for row in page.tables["differences"][1:]}
    assert keys["model.type"] == names and "data.file" not in keys
    assert page.tables["groups-history"][0][2:] == [*names, "popularity", "item-knn"]
    column = page.tables["solutions"][0].index("l2")
    assert [row[column] for row in page.tables["solutions"][1:]] == ["50", "200"]


@pytest.mark.usefixtures("undrawn")
def test_file_of_another_checkpoint_is_left_out(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "recvae"
    shutil.copytree(workspace.folder / "runs" / "recvae", run)
    mine = workspace.folder / "recvae.per-user.h5"
    shutil.copy(mine, run / "a.h5")
    shutil.copy(workspace.folder / "ease.per-user.h5", run / "b.h5")
    shutil.copy(run / "checkpoints" / "best.h5", run / "c.h5")  # not a file of --per-user

    def page() -> tuple[str, Page]:
        assert main(["report", str(run), "-o", str(tmp_path / "r.html")]) == 0
        text = (tmp_path / "r.html").read_text()
        return text, Page(text)

    checkpoint = (run / "checkpoints" / "best.h5").read_bytes()
    assert vaecf.Run(run).checksum() == f"{int.from_bytes(checkpoint[24:32], 'little'):016x}"
    with h5py.File(mine) as file:
        assert file.attrs["checkpoint_xxh3"].decode() == vaecf.Run(run).checksum()
        assert file.attrs["step"] == vaecf.Run(run).last("end")["best_epoch"] * vaecf.Run(run).epochs["step"].iloc[0]
    text, parsed = page()
    assert "groups-history" in parsed.tables
    assert {"KL divergence", "Weight of KL"} <= set(parsed.captions)
    assert "b.h5 is left out: it is not of the best.h5 of this run." in text and "a.h5 is left out" not in text
    # A later epoch has become the best one.
    shutil.copy(workspace.folder / "runs" / "elsa" / "checkpoints" / "best.h5", run / "checkpoints" / "best.h5")
    text, parsed = page()
    assert "groups-history" not in parsed.tables and "a.h5 is left out" in text
    assert main(["report", str(run), "-o", str(tmp_path / "r.html"), "--per-user", str(mine)]) == 2
    assert "is not of best.h5 of the run recvae, but of another checkpoint (step " in capsys.readouterr().err
    (run / "checkpoints" / "best.h5").unlink()
    assert vaecf.Run(run).checksum() == "" and "a.h5 is left out" in page()[0]


@pytest.mark.usefixtures("undrawn")
def test_page_of_a_solved_model_has_neither_kl_nor_epochs(workspace: Workspace, tmp_path: Path) -> None:
    assert main(["report", str(workspace.folder / "runs" / "ease"), "-o", str(tmp_path / "r.html")]) == 0
    page = Page((tmp_path / "r.html").read_text())
    assert not {"KL divergence", "Weight of KL"} & set(page.captions)
    summary = {row[0]: row[1] for row in page.tables["summary"][1:]}
    assert summary["epochs"] == ""
    assert re.fullmatch(r"ndcg@100 0\.\d{4} by solution [12]", summary["best on validation users"])


@pytest.mark.usefixtures("undrawn")
def test_losses_of_unlike_models_have_charts_of_their_own(tmp_path: Path) -> None:
    folders = [str(_write_run(tmp_path / f"{i}", 2, f"{i}", model)) for i, model in enumerate(["elsa", "recvae", "elsa"])]

    def page(*runs: str) -> Page:
        assert main(["report", *runs, "-o", str(tmp_path / "r.html")]) == 0
        return Page((tmp_path / "r.html").read_text())

    unlike = page(*folders)
    assert unlike.captions[:3] == ["Loss, elsa", "Loss, recvae", "Negative log-likelihood, elsa"]
    assert {"Weight of KL", "Training speed", "ndcg@100 on validation users"} <= set(unlike.captions)
    assert "Losses of different models have different scales" in unlike.words
    alike = page(folders[0], folders[2])
    assert alike.captions[0] == "Loss" and "Losses of different models" not in alike.words


@pytest.mark.usefixtures("undrawn")
def test_runs_on_different_datasets_have_no_best_value_and_their_own_numbers_of_users(
    workspace: Workspace, tmp_path: Path
) -> None:
    small = tmp_path / "runs" / "small"
    shutil.copytree(workspace.folder / "runs" / "elsa", small)
    shutil.copy(workspace.folder / "elsa.per-user.h5", small / "per-user.h5")
    with h5py.File(small / "per-user.h5", "r+") as file:
        history = file["history"][:]
        few = np.sort(np.concatenate([[np.argmin(history)], np.argsort(-history, kind="stable")[:20]]))
        columns: list[str] = []
        file.visititems(lambda name, each: columns.append(name) if isinstance(each, h5py.Dataset) else None)
        for name in columns:
            values = file[name][:][few]
            del file[name]
            file[name] = values
    config = small / "config.yaml"
    config.write_text(config.read_text().replace("file: data.h5", "file: other.h5"))
    large = tmp_path / "runs" / "mult_vae"
    shutil.copytree(workspace.folder / "runs" / "mult_vae", large)
    shutil.copy(workspace.folder / "mult_vae.per-user.h5", large / "per-user.h5")
    text = vaecf.report([large, small]).html
    page = Page(text)
    assert 'class="best"' not in text and "the runs have different datasets (data.file)." in page.words
    counts = [row[1] for row in page.tables["groups-history"][1:]]
    assert any(" or " in count for count in counts) and "nan" not in text
    assert 'class="best"' in vaecf.report([large, workspace.folder / "runs" / "elsa"]).html


def test_chosen_value_at_the_edge_of_its_list_is_named(workspace: Workspace, tmp_path: Path) -> None:
    assert main(["report", str(workspace.folder / "runs" / "ease"), "-o", str(tmp_path / "r.html")]) == 0
    text = (tmp_path / "r.html").read_text()
    chosen = vaecf.Run(workspace.folder / "runs" / "ease").last("end")["best_solution"]
    end = ["smallest of its list; try smaller", "largest of its list; try larger"][chosen - 1]
    assert f"The chosen l2 of ease, {[50, 200][chosen - 1]}, is the {end} values. " in Page(text).words
    assert text.count('class="best">50<') == (chosen == 1)
    assert ">all<" in text and ">20<" not in text
    for key, value, tried, expected in (
        ("l2", 100, [100, 300, 500], "smallest"),
        ("l2", 300, [100, 300, 500], ""),
        ("l2", 100, [100, 100], ""),
        ("relax", 1, [0, 0.4, 1], ""),
        ("relax", 0.4, [0, 0.4], "largest"),
        ("dropout", 0, [0, 0.3], ""),
        ("low_rank_power", 0, [0, 0.2], ""),
        ("low_rank_power", 0.2, [0, 0.2], "largest"),
    ):
        assert at_edge(key, value, tried) == expected


def test_limits_of_searched_values_are_those_of_the_schema() -> None:
    sections = SCHEMA["properties"]["model"]["properties"].values()
    keys = [item for section in sections for item in section.get("properties", {}).items()]
    ends = {
        name: tuple(schema[end] for end in ("minimum", "maximum") if end in schema)
        for name, schema in keys
        if schema.get("type") == ["array", "number"]
    }
    assert {name: values for name, values in ends.items() if values} == LIMITS


@pytest.mark.usefixtures("undrawn")
def test_wide_tables_have_a_hint_for_phones(tmp_path: Path) -> None:
    folders = [str(_write_run(tmp_path / f"{i}", 1, f"{i}", **{"ndcg@10": 0.1})) for i in range(3)]
    for runs, hints in ((folders, True), (folders[:1], False)):
        assert main(["report", *runs, "-o", str(tmp_path / "r.html")]) == 0
        text = (tmp_path / "r.html").read_text()
        assert ('class="hint"' in text) == hints and 'class="wide"' in text


@pytest.mark.usefixtures("undrawn")
def test_baselines_that_were_left_out_are_named(tmp_path: Path) -> None:
    run = _write_run(tmp_path / "r", 2, **{"ndcg@100": 0.4, "left_out": {"ease": "too many operations"}})
    assert main(["report", str(run), "-o", str(tmp_path / "r.html")]) == 0
    text = (tmp_path / "r.html").read_text()
    assert "long was tested without ease: too many operations." in text
    assert Page(text).tables["test"][0] == ["metric", "long"]


def test_page_of_ten_thousand_epochs_is_small(tmp_path: Path) -> None:
    assert main(["report", str(_write_run(tmp_path / "a", 10000)), "-o", str(tmp_path / "r.html")]) == 0
    text = (tmp_path / "r.html").read_text()
    Page(text).check_self_contained(text)
    assert len(text.encode()) < 1.5e6
    points = [path.count("L") + 1 for path in re.findall(r' d="([^"]*)"', text)]
    assert 500 < max(points) <= MAX_POINTS


def test_thinned_curve_keeps_extremes() -> None:
    y = np.sin(np.arange(50000) / 700.0)
    y[31234], y[17], y[40000] = 9.0, -7.0, np.nan
    x, kept = thin(np.arange(50000.0), y)
    assert len(x) <= MAX_POINTS and (np.diff(x) > 0).all()
    assert kept.max() == 9.0 and kept.min() == -7.0 and np.isfinite(kept).all()
    assert x[kept.argmax()] == 31234
    assert len(thin(np.arange(10.0), np.ones(10))[0]) == 10


@pytest.mark.usefixtures("undrawn")
def test_smallest_gini_and_popularity_and_largest_of_other_metrics_are_marked(tmp_path: Path) -> None:
    values = {"a": {"ndcg@10": 0.4, "gini@10": 0.7, "mean_popularity@5": 90.5, "precision@5": 0.2},
              "b": {"ndcg@10": 0.3, "gini@10": 0.6, "mean_popularity@5": 80.5, "precision@5": 0.1}}  # fmt: skip
    for name, metrics in values.items():
        _write_run(tmp_path / name, 1, name, **metrics)
    assert main(["report", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(tmp_path / "r.html")]) == 0
    text = (tmp_path / "r.html").read_text()
    marked = re.findall(r'class="best">([0-9.]+)', text[text.index('id="test"') :])
    assert marked == ["0.4000", "0.6000", "80.5000", "0.2000"]


# Of 0.1, 0.2 and 0.4 the mean is 0.7 / 3, and the sum of squared differences from it 0.14 / 3.
@pytest.mark.usefixtures("undrawn")
def test_runs_that_differ_by_seed_only_have_mean_and_standard_deviation(tmp_path: Path) -> None:
    def run(name: str, seed: int, batch: int, **test: Any) -> str:
        folder = _write_run(tmp_path / name, 1, name, **test)
        with open(folder / "config.yaml", "a") as config:
            config.write(f"train: {{seed: {seed}, batch_size: {batch}}}\n")
        return str(folder)

    def head_and_rows(*runs: str) -> list[list[str]]:
        assert main(["report", *runs, "-o", str(tmp_path / "r.html")]) == 0
        return Page((tmp_path / "r.html").read_text()).tables["test"]

    runs = [run(f"a-{i}", 6 + i, 8, **{"recall@5": recall, "baselines": {"popularity": {"metrics": {"recall@5": {"value": 0.05}}}}})
            for i, recall in ((1, 0.1), (2, 0.2), (3, 0.4))]  # fmt: skip
    untested = run("a-4", 10, 8)
    others = [run("again", 9, 8, **{"recall@5": 0.3}), run("wide", 9, 9, **{"recall@5": 0.25})]
    head, row = head_and_rows(runs[0], runs[2], untested, others[1], runs[1])
    assert head == ["metric", "a-1", "a-3", "wide", "a-2", "mean ± sd of 3 seeds: a-1 ... a-2", "popularity"]
    assert row == ["recall@5", "0.1000", "0.4000", "0.2500", "0.2000", "0.2333 ± 0.1528", "0.0500"]
    # Two runs with the same seed are one.
    head, row = head_and_rows(*runs, others[0])
    assert head[5:] == ["mean ± sd of 3 seeds: a-1 ... again", "popularity"] and row[5] == "0.2000 ± 0.1000"
    assert len(head_and_rows(runs[0], others[1])[0]) == 4


def test_names_with_markup_are_escaped(tmp_path: Path) -> None:
    run = _write_run(tmp_path / "r", 2, "<script>alert(1)</script>&")
    (run / "config.yaml").write_text("name: '<b>&'\nvalidation: {select: ndcg@100}\n")
    assert main(["report", str(run), "-o", str(tmp_path / "r.html")]) == 0
    text = (tmp_path / "r.html").read_text()
    Page(text).check_self_contained(text)
    assert "&lt;script&gt;" in text


def test_means_of_groups_are_those_of_their_users() -> None:
    values, by = pd.Series([1.0, 2.0, 3.0, 10.0]), pd.Series([1, 2, 3, 4])
    table = group_means(values, by, np.array([1.0, 2.0, 4.0]))
    assert table["mean"].tolist() == [1.5, 6.5]
    assert table["users"].tolist() == [2, 2]
    assert table["se"].tolist() == pytest.approx([0.5, 3.5])


def test_timeline_is_averaged_over_ranks(tmp_path: Path) -> None:
    def event(rank: int, microseconds: float) -> dict[str, Any]:
        return {"ph": "X", "name": "loss", "pid": rank, "tid": 1, "ts": 0, "dur": microseconds}

    names = [{"ph": "M", "name": "thread_name", "pid": r, "tid": 1, "args": {"name": "compute"}} for r in (0, 1)]
    file = tmp_path / "t.json"
    file.write_text(json.dumps({"traceEvents": [*names, event(0, 1e6), event(0, 2e6), event(1, 5e6)]}))
    assert timeline_phases(file) == {"compute: loss": 4.0}
    file.write_text("[]")
    with pytest.raises(vaecf.InputError, match="--timeline"):
        timeline_phases(file)


def test_wrong_arguments_are_errors(workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(workspace.folder / "runs" / "ease")
    output = ["-o", str(tmp_path / "r.html")]
    assert main(["report", str(tmp_path), *output]) == 2
    assert "no metrics.jsonl" in capsys.readouterr().err
    assert main(["report", run, *output, "--per-user", str(workspace.folder / "elsa.per-user.h5")]) == 2
    assert "elsa, which is not in this report" in capsys.readouterr().err
    assert main(["report", run, *output, "--timeline", "other=t.json"]) == 2
    assert main(["report", run, "-o", str(tmp_path / "missing" / "r.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err
