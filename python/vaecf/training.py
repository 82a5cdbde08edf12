"""Trains models: starts vaecf_dist, shows its progress, and returns the run."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .commands.track import check, log_run
from .dataset import Dataset, open_hdf5, read_attributes
from .errors import InputError, RunError, Stopped
from .events import Event, metric_value, parse_events, smallest_is_best
from .program import checked_program, resolved_config, run_program, settings_arguments, warnings_of
from .run import Run
from .texts import local_path
from .wording import TRAINING, training_words

SECONDS_PER_LINE = 30.0


class HasPath(Protocol):
    """A dataset with its file, as vaecf.Dataset."""

    path: Path


KEYS = {argument: key for key, argument in TRAINING.items()}
"""The key of each named argument of train() that has one."""


def train(
    data: HasPath | str | Path,
    *,
    model: str | None = None,
    name: str | None = None,
    start_from: Run | str | Path | None = None,
    resume: bool = False,
    ranks: int = 1,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    precision: str | None = None,
    directory: str | Path | None = None,
    per_user: bool = True,
    track: str | None = None,
    progress: bool = True,
    program: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Run:
    """Trains a model on a dataset and tests it, if the dataset has test users, and returns the run.

    `model`: the key model.type; default: that of `start_from`, else that of vaecf_dist. `name`: default: the name of the dataset's
    file and the model, own-elsa. `start_from`: a run whose configuration and weights are the start; models that are
    solved at once are solved again. `resume`: continue the run of this name from its newest checkpoint, if there is one, as
    after an interrupt; its keys of the model and the training must be the same. `ranks`: more than one are started by mpirun. `per_user`: also write the metrics of
    each test user to per-user.h5 in the folder of the run. `track`: mlflow, wandb or trackio, to which the run is logged
    at its end. `settings`: other keys of the configuration by dotted name.
    Without `resume`, an earlier run of this name is moved to NAME.1, NAME.2, and so on.

    Blocks until the end. An interrupt stops the training with a checkpoint, after which KeyboardInterrupt is raised; if
    this process is killed, the training stops in the same way.
    Throws InputError for wrong arguments, keys or data, Stopped if the run is stopped by a signal, with a checkpoint, and
    RunError if it fails.

    >>> run = vaecf.train("data/own.h5", model="elsa", epochs=2, progress=False, settings={"model.elsa.factors": 8})
    >>> run.path, run.epochs.index.tolist()
    (PosixPath('runs/own-elsa'), [1, 2])
    >>> longer = vaecf.train("data/own.h5", model="elsa", epochs=3, resume=True, progress=False, settings={"model.elsa.factors": 8})
    >>> longer.epochs.index.tolist()
    [1, 2, 3]
    """
    path = getattr(data, "path", data)
    if not isinstance(path, (str, Path)):
        raise InputError(
            f"train() takes a prepared dataset or its path, got a {type(data).__name__}; "
            'pass vaecf.prepare(table, user="user", item="item", file="data/own.h5")'
        )
    file = local_path(path)
    if resume and start_from is not None:
        raise InputError("resume= continues a run, and start_from= begins another one; give one of them")
    if isinstance(data, Dataset):
        data.require_unchanged()
    if track is not None:
        check(track, "vaecf")
    start = Run(start_from) if isinstance(start_from, (str, Path)) else start_from
    given = {
        "model": model,
        "name": name,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
        "device": device,
        "precision": precision,
        "directory": directory,
    }
    values: dict[str, Any] = {"data.file": file}
    values.update((KEYS[argument], value) for argument, value in given.items() if value is not None)
    for key, value in (settings or {}).items():
        if key in values:
            raise InputError(f"settings: {key} is also given by an argument of train(); give it once")
        values[key] = value
    for key, value in weight_rules(file).items():
        values.setdefault(key, value)
    arguments = settings_arguments({key: text_of(value) for key, value in values.items()})

    found = checked_program(program)
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary) / "train.yaml"
        base.write_bytes((start.path / "config.yaml").read_bytes() if start else b"{}\n")
        told = partial(training_words, written=base, start=start.path / "config.yaml" if start else None)
        try:
            config = resolved_config(found, str(base), arguments)
        except InputError as error:
            raise InputError(told(str(error))) from None
        if "name" not in values:
            config["name"] = f"{file.stem}-{config['model.type']}"
            arguments += settings_arguments({"name": text_of(config["name"])})
        folder = Path(str(config["run.directory"])) / str(config["name"])
        command = [str(base), "--quiet", *arguments]
        tests = has_test_users(file)
        if tests is False:
            command.append("--train")
        elif tests and per_user:
            command += ["--per-user", str(folder / "per-user.h5")]
        if resume:
            command += ["--resume", "auto"]
        if start and not start.model().is_solved:  # A solved model has no weights to start from.
            command += ["--start-from", str(start.path / "checkpoints" / "best.h5")]
        bar = _Progress(folder / "metrics.jsonl", config) if progress and find_spec("tqdm") else None
        hint = f"continue with resume=True, or: vaecf_dist {folder}/config.yaml --resume auto"
        try:
            _, log = run_program(command, program=found, ranks=ranks, watch=bar.update if bar else None)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"stopped; {hint}") from None
        except Stopped as stopped:
            stopped.folder = folder
            stopped.args = (f"{folder}: stopped with a checkpoint; {hint}",)
            raise
        except (InputError, RunError) as error:
            for text in error.warnings:
                warnings.warn(told(text), stacklevel=2)
            raise type(error)(told(str(error))) from None
        finally:
            if bar:
                bar.close()
    for text in warnings_of(log):
        warnings.warn(told(text), stacklevel=2)
    run = Run(folder)
    if track is not None:
        try:
            log_run(run, track)
        except RunError as error:
            warnings.warn(str(error), stacklevel=2)
    return run


def text_of(value: Any) -> str:
    """Returns a value as YAML."""

    def plain(other: Any) -> Any:
        if isinstance(other, (np.generic, np.ndarray)):
            return other.tolist()
        return os.fspath(other)

    return json.dumps(value, default=plain, ensure_ascii=False)


def weight_rules(file: Path) -> dict[str, Any]:
    """Returns the keys by which `prepare` made the weights of a dataset; recommend makes those of its input by them."""
    try:
        with open_hdf5(file) as data:
            made = read_attributes(data)
    except InputError:  # The program says what is wrong with the file.
        return {}
    names = ("duplicates", "interaction_weights") if "interaction_weights" in made else ()
    return {f"data.prepare.{name}": made[name] for name in names if name in made}


def has_test_users(file: Path) -> bool | None:
    """Returns whether a dataset has test users; None if the file is not a dataset, which is then the program's error."""
    try:
        with open_hdf5(file) as data:
            if "train" not in data:
                return None
            return "test" in data and len(data["test/fold_in/indptr"]) > 1
    except InputError:
        return None


class _Progress:
    """A progress bar of the epochs or solutions of a run at work, from the events in its metrics.jsonl.

    Where it cannot be redrawn, as in a file, it is a line at most every 30 seconds, and one at the end.
    """

    def __init__(self, log: Path, config: Mapping[str, Any]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a notebook without the package ipywidgets
            from tqdm.auto import tqdm  # pylint: disable=import-outside-toplevel
        redrawn = sys.stderr.isatty() or "ipykernel" in sys.modules
        self.nowhere = None if redrawn else open(os.devnull, "w", encoding="utf-8")
        self.bar = tqdm(desc=str(config["name"]), file=self.nowhere)
        self.epochs = int(config["train.epochs"])
        self.last_line = time.monotonic()
        self.log = log
        self.metric = str(config["validation.select"])
        self.best: float | None = None
        self.read_bytes = 0
        self.started = time.time()

    def update(self) -> None:
        """Shows the events since the last call."""
        # The file is that of an earlier run until the program has moved it.
        if not self.log.is_file() or self.log.stat().st_mtime < self.started:
            return
        with open(self.log, "rb") as file:
            file.seek(self.read_bytes)
            lines = file.read()
        lines = lines[: lines.rfind(b"\n") + 1]
        self.read_bytes += len(lines)
        for event in parse_events(lines.decode("utf-8", "replace").splitlines()):
            self._show(event)
        if self.nowhere and time.monotonic() - self.last_line >= SECONDS_PER_LINE:
            self.last_line = time.monotonic()
            print(self.bar, file=sys.stderr, flush=True)

    def _show(self, event: Event) -> None:
        if event["event"] in ("epoch", "solve"):
            if self.bar.n == 0:
                self._set_unit(event["event"])
            self.bar.update()
        value = metric_value(event, self.metric)
        if event["event"] in ("validation", "solve") and value is not None:
            choose = min if smallest_is_best(self.metric) else max
            self.best = value if self.best is None else choose(value, self.best)
            self.bar.set_postfix_str(f"{self.metric} {value:.4f}, best {self.best:.4f}")
        if event["event"] == "end":
            self.bar.set_postfix_str(f"{self.bar.postfix or 'trained'}, {event.get('reason', '')}")

    def _set_unit(self, first: str) -> None:
        """Sets what the bar counts: epochs, of which the number is known, or solutions. The first event of them tells."""
        self.bar.unit = "epoch" if first == "epoch" else "solution"
        if first == "epoch":
            self.bar.reset(total=self.epochs)
            self.bar.start_t = self.bar.last_print_t = self.started  # reset() begins at now

    def close(self) -> None:
        """Shows the last events and leaves the bar as it is."""
        self.update()
        self.bar.close()
        if self.nowhere:
            self.nowhere.close()
            print(self.bar, file=sys.stderr)
