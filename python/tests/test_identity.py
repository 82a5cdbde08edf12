"""Objects remain what they were when other runs and datasets get their names."""

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import Workspace, child_of, has_ended

import vaecf


def _ease(l2: float) -> vaecf.Run:
    return vaecf.train("own.h5", model="ease", progress=False, settings={"model.ease.l2": l2})


def test_run_remains_itself_after_later_runs_of_its_name(space: Path) -> None:
    first, second = _ease(0.01), _ease(1e6)
    third = _ease(1.0)
    assert [run.config["model.ease.l2"] for run in (first, second, third)] == [[0.01], [1e6], [1.0]]
    assert [run.model().config["model.ease.l2"] for run in (first, second, third)] == [[0.01], [1e6], [1.0]]
    names = ["runs/own-ease.1", "runs/own-ease.2", "runs/own-ease"]
    assert [str(run.path) for run in (first, second, third)] == names
    assert len({run.checksum() for run in (first, second, third)}) == 3
    table = vaecf.leaderboard([first, second, third])
    values = table.loc["own"][("all", "ndcg@100", "value")]
    assert set(names) <= set(values.index)
    assert values[names[0]] == first.test["ndcg@100"].iloc[-1]
    assert values[names[1]] == second.test["ndcg@100"].iloc[-1]
    differences = vaecf.compare(first, second, samples=50)
    assert differences.index.get_level_values("run").unique().tolist() == names[1:2]
    assert (differences["difference"] != 0).any()
    shutil.rmtree(space / "runs" / "own-ease.1")
    with pytest.raises(vaecf.InputError, match=r"runs/own-ease: the run that was opened here was deleted or moved"):
        first.model()
    assert first.config["model.ease.l2"] == [0.01]  # what was read is kept


def test_resumed_run_is_the_same_run(space: Path, workspace: Workspace) -> None:
    settings = {"model.hidden": [24], "model.latent": 8}
    run = vaecf.train("own.h5", epochs=1, batch_size=50, progress=False, settings=settings)
    command = [workspace.program, str(run.path / "config.yaml"), "--resume", "auto", "--set", "train.epochs=2", "-q"]
    subprocess.run(command, check=True, capture_output=True)
    assert len(run.epochs) == 2 and run.path == Path("runs/own-mult_vae")
    assert len({event["id"] for event in run.events if event["event"] == "start"}) == 2
    assert run.model().epoch in (1, 2)


def _log(folder: Path, *starts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"event": "start", "id": name, "name": name, "tasks": ["train"]}) for name in starts]
    (folder / "new").write_text("".join(f"{line}\n" for line in lines))
    (folder / "new").rename(folder / "metrics.jsonl")
    return folder


def test_run_is_found_by_its_first_start_beside_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a[1]*"
    run = vaecf.Run(_log(folder, "x", "y"))
    _log(folder, "x", "z")
    assert run.path == folder
    folder.rename(tmp_path / "a[1]*.12")
    _log(folder, "y")
    _log(tmp_path / "a[1]*.3", "z", "x")
    assert run.path == tmp_path / "a[1]*.12" and run.name == "z"  # that of the last start
    shutil.rmtree(folder)
    run.path.rename(folder)
    assert run.path == folder and repr(run) == f"Run({str(folder)!r})"
    monkeypatch.chdir(folder)
    here = vaecf.Run(".")
    assert here.path == Path(".")
    for name in ("b", "a[1]*.old", "a[1]*.1/inner"):  # none of these is a name that the program gives
        (tmp_path / name).parent.mkdir(exist_ok=True)
        run.path.rename(tmp_path / name)
        with pytest.raises(vaecf.InputError, match="deleted or moved, and is not in a.1...1 and so on either; open it"):
            _ = run.log
        (tmp_path / name).rename(folder)


def test_run_that_is_opened_before_it_begins_is_identified_by_its_start(tmp_path: Path) -> None:
    run = vaecf.Run(_log(tmp_path / "a"))
    assert run.path == tmp_path / "a"
    _log(tmp_path / "a", "x")
    assert run.path == tmp_path / "a"
    (tmp_path / "a").rename(tmp_path / "a.1")
    _log(tmp_path / "a", "y")
    assert run.path == tmp_path / "a.1"


def _dataset(file: Path, items: int, row: list[int], indptr: list[int] | None = None) -> Path:
    """Replaces a dataset as the program does: by renaming another file."""
    with h5py.File(f"{file}.new", "w") as new:
        new.attrs["items"] = items
        for name in ("train", "validation/fold_in", "validation/held_out"):
            new[f"{name}/indptr"] = np.array(indptr or [0, len(row)])
            new[f"{name}/indices"] = np.array(row, np.int32)
        new["items/id"] = np.arange(items) + 100
        new["items/title"] = [f"title {item}" for item in range(items)]
    os.replace(f"{file}.new", file)
    return file


READS = ("train", "train_user_id", "validation", "item_id", "item_title", "popularity")


def test_dataset_whose_file_was_replaced_is_an_error(tmp_path: Path) -> None:
    file = _dataset(tmp_path / "d.h5", 3, [0, 2])
    read = vaecf.Dataset(file)
    before = {name: getattr(read, name) for name in READS}
    for items, row in ((9, [1, 8]), (2, [1]), (3, [0, 2])):  # larger, smaller, and the same
        for name in READS:
            data = vaecf.Dataset(_dataset(file, 3, [0, 2]))
            _dataset(file, items, row)
            with pytest.raises(vaecf.InputError, match="d.h5: was replaced since it was opened; open it again"):
                getattr(data, name)
            with pytest.raises(vaecf.InputError, match="was replaced"):
                vaecf.train(data, progress=False)
    assert all(getattr(read, name) is value for name, value in before.items())
    data = vaecf.Dataset(file)
    os.utime(file, ns=(0, 12345))
    with pytest.raises(vaecf.InputError, match="was replaced"):
        _ = data.train
    file.unlink()
    with pytest.raises(vaecf.InputError, match="no such file"):
        _ = data.train
    links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not [link for link in links if "d.h5" in link]


@pytest.mark.parametrize(
    "row, indptr, message",
    [
        ([0, 3], None, "d.h5: /train/indices contains 3, but there are 3 columns; write the file again"),
        ([-1, 2], None, "indices contains -1,"),
        ([0, 2], [0, 3], "/train/indptr does not divide the 2 indices into rows"),
        ([0, 2], [1, 2], "/train/indptr"),
        ([0, 2], [0, 1], "/train/indptr"),
        ([0, 2], [0, 3, 1, 2], "/train/indptr"),
    ],
)
def test_indices_outside_of_a_matrix_are_an_error(
    tmp_path: Path, row: list[int], indptr: list[int] | None, message: str
) -> None:
    with pytest.raises(vaecf.InputError, match=message):
        _ = vaecf.Dataset(_dataset(tmp_path / "d.h5", 3, row, indptr)).train
    assert vaecf.Dataset(_dataset(tmp_path / "d.h5", 3, [], [0])).train.shape == (0, 3)


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("requires", "soft targets", "requires a program that knows soft targets, .* written by vaecf_dist"),
        ("format_version", 4, "its format_version is 4, but vaecf .* reads 3 only"),
        ("interaction_weights", "sqrt", "interaction_weights is sqrt, which vaecf .* does not implement"),
    ],
)
def test_datasets_of_later_versions_are_refused(
    workspace: Workspace, tmp_path: Path, name: str, value: Any, message: str
) -> None:
    path = tmp_path / "later.h5"
    shutil.copy(workspace.folder / "data.h5", path)
    vaecf.Dataset(path)
    with h5py.File(path, "r+") as file:
        file.attrs[name] = value
    with pytest.raises(vaecf.InputError, match=message):
        vaecf.Dataset(path)


def test_threads_read_at_once(workspace: Workspace) -> None:
    expected = vaecf.Dataset(workspace.folder / "data.h5").train
    data = vaecf.Dataset(workspace.folder / "data.h5")
    run = vaecf.Run(workspace.folder / "runs" / "ease")

    def read(number: int) -> Any:
        return data.train if number % 2 else run.model().n_items

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, range(32)))
    assert set(found[::2]) == {120} and all((matrix != expected).nnz == 0 for matrix in found[1::2])


def test_tilde_is_the_home_folder(space: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    home = space / "home me"
    home.mkdir()
    (space / "own.h5").rename(home / "own.h5")
    shutil.copy(workspace.folder / "weighted.h5", home / "weighted.h5")
    monkeypatch.setenv("HOME", str(home))
    assert vaecf.Dataset("~/own.h5").path == home / "own.h5"
    run = vaecf.train("~/weighted.h5", model="item_knn", directory="~/runs", progress=False)
    assert run.path == home / "runs" / "weighted-item_knn" and run.config["data.file"] == str(home / "weighted.h5")
    assert run.config["data.prepare.interaction_weights"] == "log1p"
    assert vaecf.Run("~/runs/weighted-item_knn").model().path.is_relative_to(home)
    (home / "c.yaml").write_text("{name: c, data: {file: ~/own.h5}, run: {directory: ~/more}, model: {type: item_knn}}")
    subprocess.run([workspace.program, home / "c.yaml", "-q"], check=True, capture_output=True)
    assert (home / "more" / "c" / "config.yaml").is_file()
    lines = "".join(f"{user},{item}\n" for user in range(30) for item in range(user % 5, 9))
    (home / "r.csv").write_text(f"u,i\n{lines}")
    sizes = {"split": "random", "validation_users": 3, "test_users": 3, "min_user_items": 2}
    data = vaecf.prepare("~/r.csv", file="~/made.h5", user="u", item="i", **sizes)
    assert data.path == home / "made.h5" and not (space / "~").exists()
    monkeypatch.delenv("HOME")
    with pytest.raises(vaecf.InputError, match="~/own.h5: no such file"):
        vaecf.Dataset("~/own.h5")


def test_run_named_as_a_baseline_and_different_baselines_are_told_apart(tmp_path: Path) -> None:
    runs = []
    for name, value, popularity in (("elsa", 0.5, 0.1), ("ease", 0.4, 0.2), ("third", 0.3, 0.1)):
        folder = _log(tmp_path / name, name)
        found = {"popularity": popularity, **({"ease": 0.45} if name == "elsa" else {})}
        baselines = {other: {"metrics": {"ndcg@10": {"value": ndcg}}} for other, ndcg in found.items()}
        event = {"event": "test", "metrics": {"ndcg@10": {"value": value}}, "baselines": baselines}
        with open(folder / "metrics.jsonl", "a", encoding="utf-8") as log:
            log.write(json.dumps(event) + "\n")
        runs.append(vaecf.Run(folder))
    expected = {"elsa": 0.5, "ease": 0.4, "third": 0.3, "popularity": 0.1, "ease (elsa)": 0.45, "popularity (ease)": 0.2}
    for order in (runs, runs[::-1]):
        values = vaecf.leaderboard(order).droplevel("dataset")[("all", "ndcg@10", "value")].to_dict()
        assert values == expected if order is runs else sorted(values.values()) == sorted(expected.values())
    # Equal baselines are one row, in any order of the runs.
    assert vaecf.leaderboard(runs[::-1]).index.get_level_values("model").tolist() == [
        "elsa",
        "ease (elsa)",
        "ease",
        "third",
        "popularity (ease)",
        "popularity",
    ]


# The program gets a signal for each thread of Python that ends.
KILLED = """
import threading, time, vaecf
for _ in range(16):
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
vaecf.train("own.h5", name="long", epochs=10**6, ranks={ranks}, progress=False, batch_size=50,
            settings={{"model.hidden": [24], "model.latent": 8}})
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_killed_python_stops_its_training_with_a_checkpoint(space: Path, wait_for: Any, ranks: int) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv of util-linux is not installed")
    log = space / "runs" / "long" / "metrics.jsonl"

    def logged(text: str) -> bool:
        return log.is_file() and text in log.read_text()

    with subprocess.Popen([sys.executable, "-c", KILLED.format(ranks=ranks)], stderr=subprocess.DEVNULL) as python:
        wait_for(lambda: logged('"event":"epoch"') or python.poll() is not None)
        program = child_of(python)
        python.kill()
    try:
        wait_for(lambda: logged('"reason":"stopped"'))
        wait_for(lambda: has_ended(program))
    finally:
        if not has_ended(program):
            os.killpg(program, signal.SIGKILL)
    assert [path for path in vaecf.Run(log.parent).checkpoints if path.name != "best.h5"]
