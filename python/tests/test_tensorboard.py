"""`vaecf tensorboard`: event files are read back with the reader of TensorBoard."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Workspace

import vaecf
from vaecf.cli import main

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def _read(folder: Path) -> Any:
    events = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    return events


def _append(log: Path, *events: dict[str, Any]) -> None:
    with log.open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def _epoch(epoch: int, loss: float) -> dict[str, Any]:
    return {"event": "epoch", "epoch": epoch, "loss": loss, "time": "2026-01-02T03:04:05Z"}


def _wait_for_epoch(folder: Path, epoch: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if list(folder.glob("events.*")):
            events = _read(folder)
            if "train/loss" in events.Tags()["scalars"] and events.Scalars("train/loss")[-1].step >= epoch:
                return
        time.sleep(0.05)
    raise AssertionError(f"epoch {epoch} was not written")


def test_curves_are_those_of_the_run(workspace: Workspace, tmp_path: Path) -> None:
    folder = workspace.folder / "runs" / "mult_vae"
    assert main(["tensorboard", str(folder), "--logdir", str(tmp_path)]) == 0
    events, run = _read(tmp_path / "mult_vae"), vaecf.Run(folder)
    for tag, curve in (("train/loss", run.epochs["loss"]), ("validation/ndcg@100", run.validation["ndcg@100"])):
        read = events.Scalars(tag)
        assert [point.step for point in read] == [1, 2, 3]
        assert [point.value for point in read] == pytest.approx(curve.tolist(), rel=1e-6)
    assert events.Scalars("test/recall@20")[0].value == pytest.approx(run.test["recall@20"].iloc[0], rel=1e-6)
    assert events.Scalars("test_item_knn/ndcg@100")[0].value == pytest.approx(run.baselines["ndcg@100"]["item_knn"], rel=1e-6)
    assert "train/beta" in events.Tags()["scalars"]
    text = events.Tensors("configuration")[0].tensor_proto.string_val[0].decode()
    assert "hidden: [24, 16]" in text


def test_solutions_are_steps(workspace: Workspace, tmp_path: Path) -> None:
    folder = workspace.folder / "runs" / "ease"
    assert main(["tensorboard", str(folder), "--logdir", str(tmp_path)]) == 0
    events = _read(tmp_path / "ease")
    assert [(point.step, point.value) for point in events.Scalars("solve/l2")] == [(1, 50.0), (2, 200.0)]
    assert len(events.Scalars("validation/ndcg@100")) == 2


def test_run_at_work_is_followed_until_its_test(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "tb"
    run.mkdir()
    log = run / "metrics.jsonl"
    _append(log, {"event": "start", "tasks": ["train"], "config": {"name": "run"}}, _epoch(1, 5.0))
    codes: list[int] = []
    arguments = ["tensorboard", str(run), "--logdir", str(out), "--follow", "--interval", "0.02"]
    thread = threading.Thread(target=lambda: codes.append(main(arguments)), daemon=True)
    thread.start()
    _wait_for_epoch(out / "run", 1)
    with log.open("a") as file:
        file.write(json.dumps(_epoch(2, 4.0))[:20])
        file.flush()
        time.sleep(0.2)
        file.write(json.dumps(_epoch(2, 4.0))[20:] + "\n")
    _wait_for_epoch(out / "run", 2)
    _append(log, {"event": "end", "epoch": 2}, {"event": "test", "epoch": 2, "metrics": {"ndcg@100": {"value": 0.5}}})
    thread.join(60)
    assert codes == [0]
    events = _read(out / "run")
    points = events.Scalars("train/loss")
    assert [(point.step, point.value) for point in points] == [(1, 5.0), (2, 4.0)]
    assert points[0].wall_time == 1767323045.0
    assert events.Scalars("test/ndcg@100")[0].value == 0.5


def test_replaced_log_of_a_resumed_run_replaces_the_curve(tmp_path: Path) -> None:
    from vaecf.commands.tensorboard import RunWriter

    run = tmp_path / "run"
    run.mkdir()
    _append(run / "metrics.jsonl", _epoch(1, 5.0), _epoch(2, 4.0), _epoch(3, 3.0))
    writer = RunWriter(vaecf.Run(run), tmp_path / "tb")
    assert writer.update() == 3
    _append(run / "new.jsonl", _epoch(1, 5.0), _epoch(2, 9.0))
    (run / "new.jsonl").rename(run / "metrics.jsonl")
    assert writer.update() == 2 and writer.update() == 0
    writer.close()
    points = _read(tmp_path / "tb").Scalars("train/loss")
    assert [(point.step, point.value) for point in points] == [(1, 5.0), (2, 9.0)]


def test_second_copy_in_one_folder_is_an_error(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["tensorboard", str(workspace.folder / "runs" / "elsa"), "--logdir", str(tmp_path)]
    assert main(arguments) == 0
    assert main(arguments) == 2
    assert "delete the folder" in capsys.readouterr().err
    assert main([*arguments, "--interval", "0"]) == 2
