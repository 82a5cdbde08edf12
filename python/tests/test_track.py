"""`vaecf track` with MLflow and trackio, in databases of their own; Weights & Biases is not tested."""

import datetime
import socket
import sqlite3
import types
from pathlib import Path
from typing import Any

import pytest
from conftest import Workspace

import vaecf
from vaecf.cli import main


@pytest.fixture(name="run")
def _run(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> vaecf.Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VAECF_PROGRAM", workspace.program)
    return vaecf.Run(workspace.folder / "runs" / "mult_vae")


def test_runs_are_logged_to_mlflow(
    workspace: Workspace, run: vaecf.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/m.db")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/m.db")
    assert main(["track", str(run.path), "--to", "mlflow", "--follow", "--interval", "0.1"]) == 0
    client = mlflow.MlflowClient()

    def logged() -> list[Any]:
        return list(client.search_runs([client.get_experiment_by_name("vaecf").experiment_id]))

    (found,) = logged()
    assert found.info.run_name == "mult_vae" and found.info.status == "FINISHED"
    assert found.data.params["model.latent"] == "8" and len(found.data.params) > 80
    curve = client.get_metric_history(found.info.run_id, "validation/ndcg_at_100")
    assert [(point.step, point.value) for point in curve] == list(run.validation["ndcg@100"].items())
    times = [datetime.datetime.fromisoformat(time) for time in run.validation["time"]]
    assert [point.timestamp for point in curve] == [1000 * int(time.timestamp()) for time in times]
    assert found.data.metrics["test_item_knn/recall_at_20"] == run.baselines.loc["item_knn", "recall@20"]
    assert found.data.tags["dataset_checksum"]
    assert {file.path for file in client.list_artifacts(found.info.run_id)} == {"best.h5", "test.csv"}
    trained = vaecf.train(workspace.folder / "data.h5", model="ease", track="mlflow", progress=False)
    assert {each.info.run_name for each in logged()} == {"mult_vae", trained.name}


def test_tracker_that_cannot_be_used_is_found_before_training(
    workspace: Workspace, run: vaecf.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    data = workspace.folder / "data.h5"
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # without listen(): connections are refused
        server = f"http://127.0.0.1:{unused.getsockname()[1]}"
        mlflow.set_tracking_uri(server)
        with pytest.raises(vaecf.InputError, match=f"mlflow: {server} cannot be used: .*MLFLOW_TRACKING_URI"):
            vaecf.train(data, model="ease", track="mlflow", progress=False)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/deleted.db")
    client = mlflow.MlflowClient()
    client.delete_experiment(client.create_experiment("vaecf"))
    with pytest.raises(vaecf.InputError, match="the experiment vaecf was deleted; restore it with"):
        vaecf.train(data, model="ease", track="mlflow", progress=False)
    assert main(["track", str(run.path), "--to", "mlflow"]) == 2
    assert not Path("runs").exists()


def test_tracker_that_fails_after_training_is_a_warning(
    workspace: Workspace, run: vaecf.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**_: Any) -> None:
        raise ConnectionError("connection refused\nlong explanation")

    failing = types.SimpleNamespace(__name__="wandb", init=init)
    monkeypatch.setattr("vaecf.commands.track.package", lambda to: failing)
    with pytest.warns(UserWarning, match="was not logged to wandb: connection refused; log it later with: vaecf track"):
        trained = vaecf.train(workspace.folder / "data.h5", model="ease", track="wandb", progress=False)
    assert trained.test.shape[0] > 0
    assert main(["track", str(run.path), "--to", "wandb"]) == 1


def test_runs_are_logged_to_trackio(run: vaecf.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio")
    assert main(["track", str(run.path), "--to", "trackio", "--project", "own"]) == 0
    (database,) = (tmp_path / "trackio").glob("own*.db")
    with sqlite3.connect(database) as connection:
        text = "\n".join(str(row) for row in connection.execute("select * from metrics"))
    assert text.count("validation/ndcg_at_100") == 3 and "test/ndcg_at_100" in text and "dataset_checksum" in text


def test_wrong_trackers_are_errors(run: vaecf.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(vaecf.InputError, match="must be one of mlflow, wandb, trackio, got tensorboard"):
        vaecf.train("data.h5", track="tensorboard")
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(vaecf.InputError, match="the package wandb is missing; install it with: pip install wandb"):
        vaecf.train("data.h5", track="wandb")
    assert main(["track", str(run.path), "--to", "wandb"]) == 2
