"""Logs runs to MLflow, Weights & Biases or trackio, also a run at work."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from .. import errors
from ..dataset import open_hdf5, read_attributes
from ..errors import InputError, RunError
from ..events import Event, step_of
from ..results import leaderboard
from ..run import Run
from .tensorboard import Follower, follow, scalars, wall_time

TRACKERS = ("mlflow", "wandb", "trackio")


def package(to: str) -> Any:
    """Returns the package of a tracker. Throws InputError if it is not installed, or another name."""
    if to not in TRACKERS:
        raise InputError(f"the tracker must be one of {', '.join(TRACKERS)}, got {to}")
    try:
        return importlib.import_module(to)
    except ImportError:
        raise InputError(f"the package {to} is missing; install it with: pip install {to}") from None


def check(to: str, project: str) -> None:
    """Throws InputError if a tracker is not installed, if MLflow cannot be used, or if its experiment was deleted."""
    module = package(to)
    if to != "mlflow":
        return
    key = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"  # Seven by default, for minutes.
    given = os.environ.get(key)
    os.environ.setdefault(key, "1")
    try:
        experiment = module.MlflowClient().get_experiment_by_name(project)
    except Exception as error:  # pylint: disable=broad-exception-caught # of MLflow, a database or the network
        raise InputError(
            f"mlflow: {module.get_tracking_uri()} cannot be used: {_reason(error)}; "
            "start its server, or set MLFLOW_TRACKING_URI to another one"
        ) from error
    finally:
        if given is None:
            del os.environ[key]
    if experiment is not None and experiment.lifecycle_stage == "deleted":
        number = experiment.experiment_id
        raise InputError(
            f"mlflow: the experiment {project} was deleted; restore it with: mlflow experiments restore -x {number}"
        )


def _reason(error: Exception) -> str:
    """Returns the first line of the message of an exception."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def log_run(run: Run, to: str, project: str = "vaecf", forever: bool = False, interval: float = 0.0) -> int:
    """Logs a run to a tracker, also until it has ended, and returns the number of events.

    Throws RunError with the reason if the tracker fails.
    """
    try:
        return follow([Tracked(run, to, project)], forever, interval)
    except (InputError, RunError):
        raise
    except Exception as error:  # pylint: disable=broad-exception-caught # of a tracker, its database or the network
        again = f"vaecf track {run.path} --to {to}" + ("" if project == "vaecf" else f" --project {project}")
        raise RunError(f"{run.path}: was not logged to {to}: {_reason(error)}; log it later with: {again}") from error


def legal_name(tag: str) -> str:
    """Returns a tag without @, which MLflow refuses: validation/ndcg_at_100."""
    return tag.replace("@", "_at_")


class _Mlflow:
    """A run of an MLflow experiment. It is not the active run of the process."""

    def __init__(self, module: Any, project: str, name: str, config: dict[str, Any]) -> None:
        self.client, self.entities = module.MlflowClient(), module.entities
        experiment = self.client.get_experiment_by_name(project)
        number = experiment.experiment_id if experiment else self.client.create_experiment(project)
        self.run = self.client.create_run(number, run_name=name).info.run_id
        params = [self.entities.Param(key, str(value)[:500]) for key, value in config.items()]
        for first in range(0, len(params), 100):
            self.client.log_batch(self.run, params=params[first : first + 100])

    def log(self, values: dict[str, float], step: int, seconds: float) -> None:
        metric = self.entities.Metric
        self.client.log_batch(self.run, [metric(*pair, int(1000 * seconds), step) for pair in values.items()])

    def describe(self, values: dict[str, str]) -> None:
        for key, value in values.items():
            self.client.set_tag(self.run, key, value)

    def artifact(self, file: Path) -> None:
        self.client.log_artifact(self.run, str(file))

    def close(self) -> None:
        self.client.set_terminated(self.run)


class _Wandb:
    """A run of Weights & Biases, or of trackio, which has the same functions."""

    def __init__(self, module: Any, project: str, name: str, config: dict[str, Any]) -> None:
        self.name, self.last = name, 0
        more = {"embed": False} if module.__name__ == "trackio" else {}
        self.run = module.init(project=project, name=name, config=config, **more)

    def log(self, values: dict[str, float], step: int, _: float) -> None:
        self.last = max(step, self.last)  # Steps may not become smaller, as that of the best epoch, which is tested.
        self.run.log(values, step=self.last)

    def describe(self, values: dict[str, str]) -> None:
        self.run.log(values, step=self.last)

    def artifact(self, file: Path) -> None:
        self.run.log_artifact(
            str(file), name=f"{self.name}-{file.stem}", type="model" if file.suffix == ".h5" else "table"
        )

    def close(self) -> None:
        self.run.finish()


class Tracked(Follower):
    """Copies the configuration and events of one run to a tracker, and at its end the test and the best checkpoint."""

    def __init__(self, run: Run, to: str, project: str) -> None:
        super().__init__(run)
        module = package(to)
        config = {key: value for key, value in run.config.items() if value is not None}
        self._tracker = (_Mlflow if to == "mlflow" else _Wandb)(module, project, run.name, config)

    def add(self, event: Event) -> None:
        """Logs the values of an event."""
        values = {legal_name(tag): value for tag, value in scalars(event)}
        if values:
            self._tracker.log(values, step_of(event), wall_time(event))

    def close(self) -> None:
        """Logs the checksum of the dataset, the best checkpoint, and the table of the test."""
        best = self._log.parent / "checkpoints" / "best.h5"
        if best.is_file():
            with open_hdf5(best) as file:
                self._tracker.describe({"dataset_checksum": str(read_attributes(file).get("dataset_checksum", ""))})
            self._tracker.artifact(best)
        if self._tested:
            with tempfile.TemporaryDirectory() as folder:
                leaderboard(Run(self._log.parent)).to_csv(Path(folder) / "test.csv")
                self._tracker.artifact(Path(folder) / "test.csv")
        self._tracker.close()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `vaecf track`."""
    parser.add_argument("runs", metavar="RUN", nargs="+", help="the folder of a run")
    parser.add_argument(
        "--to", required=True, choices=TRACKERS, help="the tracker, whose own variables say where it is"
    )
    parser.add_argument("--project", default="vaecf", metavar="NAME", help="project or experiment (default: vaecf)")
    parser.add_argument("--follow", action="store_true", help="go on until the runs have ended, or until Ctrl-C")
    parser.add_argument("--interval", type=float, default=5.0, metavar="SECONDS", help="of --follow (default: 5)")


def run(options: argparse.Namespace) -> int:
    """Logs the runs, with --follow one after the other."""
    if options.interval <= 0:
        raise InputError(f"--interval: must be greater than 0, got {options.interval:g}")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    check(options.to, options.project)
    for path in options.runs:
        count = log_run(Run(path), options.to, options.project, options.follow, options.interval)
        print(f"logged {count} events of {path} to {options.to}, project {options.project}", file=sys.stderr)
    return errors.DONE
