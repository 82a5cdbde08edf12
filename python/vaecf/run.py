"""Reads the folder of a run: its configuration, its events and its checkpoints."""

from __future__ import annotations

import glob
import os
import struct
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from .dataset import Dataset
from .errors import InputError
from .events import Event, first_start, flat_metrics, read_events, results_of
from .model import Model
from .texts import escaped, local_path
from .yaml_files import flatten, load_yaml


class Run:
    """A run folder of vaecf_dist, also of a run at work. Everything is read at first use and kept.

    It remains the same run when a later one of its name moves it to NAME.1, NAME.2, and so on.

    >>> run = vaecf.Run("runs/vectors")
    >>> run.validation.index.tolist(), run.config["train.epochs"]
    ([1, 2], 2)
    >>> "popularity" in run.baselines.index
    True
    """

    def __init__(self, path: str | Path) -> None:
        """Opens a run folder. Throws InputError if it has no metrics.jsonl."""
        self._opened = self._path = local_path(path)
        if not (self._path / "metrics.jsonl").is_file():
            raise InputError(f"{path}: no metrics.jsonl in this folder; pass the folder of a run, such as runs/ml20m")
        self._start = first_start(self._path / "metrics.jsonl")

    def __repr__(self) -> str:
        return f"Run({str(self._path)!r})"

    @property
    def path(self) -> Path:
        """The folder of the run, wherever later runs of its name have moved it. Throws InputError if it is gone."""
        found = first_start(self._path / "metrics.jsonl")
        if self._start is None:  # The run was opened before it began.
            self._start = found
        if found != self._start:
            self._path = self._find()
        return self._path

    @property
    def log(self) -> Path:
        """The file of its events. Throws InputError if the run is gone."""
        return self.path / "metrics.jsonl"

    @property
    def name(self) -> str:
        """The name of the run: the key `name`."""
        return str(self.start.get("name") or self.path.resolve().name)

    @cached_property
    def config(self) -> dict[str, Any]:
        """Every key of the configuration with its value, by dotted key."""
        return flatten(load_yaml(self.path / "config.yaml"))

    @cached_property
    def events(self) -> list[Event]:
        """All events, in the order in which they were written."""
        return read_events(self.log)

    @property
    def start(self) -> Event:
        """The last event `start` that trained, that of the last resumption; empty if there is none."""
        return next((e for e in reversed(self.events) if e["event"] == "start" and "train" in e.get("tasks", [])), {})

    def last(self, event: str) -> Event:
        """Returns the last event of this name, or an empty one.

        >>> vaecf.Run("runs/vectors").last("end")["reason"]
        'epochs'
        """
        return next((e for e in reversed(self.events) if e["event"] == event), {})

    def table(self, event: str) -> pd.DataFrame:
        """Returns the events of this name, one per row, with a column for each field that has no others within it, each
        metric, its standard error (ndcg@100_se) and each setting of a solution.

        >>> vaecf.Run("runs/vectors").table("epoch")[["epoch", "step"]].to_numpy().tolist()
        [[1, 1], [2, 2]]
        """
        return pd.DataFrame([_row(e) for e in self.events if e["event"] == event])

    @cached_property
    def epochs(self) -> pd.DataFrame:
        """Loss, nll, kl, beta, seconds and users_per_second of each epoch; the index is the epoch."""
        return _by_epoch(self.table("epoch"))

    @cached_property
    def validation(self) -> pd.DataFrame:
        """Each metric on the validation users and its standard error: ndcg@100, ndcg@100_se; the index is the epoch."""
        return _by_epoch(self.table("validation"))

    @cached_property
    def test(self) -> pd.DataFrame:
        """The tests: each metric and its standard error; the index is the tested epoch or solution."""
        return _by_epoch(self.table("test"))

    @cached_property
    def solutions(self) -> pd.DataFrame:
        """The solutions of a model that is solved at once: their settings, and each metric on the validation users with its
        standard error; the index is the number of the solution."""
        return _by_epoch(self.table("solve"))

    @cached_property
    def baselines(self) -> pd.DataFrame:
        """The baselines of the last test, by name: each metric and its standard error, and the settings that were chosen."""
        found = self.last("test").get("baselines", {})
        rows = [{"settings": result.get("settings", {}), **flat_metrics(result)} for result in found.values()]
        return pd.DataFrame(rows, pd.Index(list(found), name="baseline"))

    @cached_property
    def groups(self) -> pd.DataFrame:
        """The groups of users and items that have metrics of their own, in each validation, solution and test: the numbers of
        users and items, each metric and its standard error, and of new items that of a random order (ndcg@100_random).

        The index is the event (validation, solve or test), its epoch or solution, whose result it is (model, features_alone
        or the name of a baseline), and the group.
        """
        rows = {}
        for event in self.events:
            for of, result in results_of(event).items():
                for group, values in result.get("groups", {}).items():
                    place = (event["event"], event.get("epoch", event.get("solution")), of, group)
                    rows[place] = {key: values[key] for key in ("users", "items") if key in values} | flat_metrics(values)
        index = pd.MultiIndex.from_tuples(list(rows), names=["event", "epoch", "of", "group"]) if rows else None
        return pd.DataFrame(list(rows.values()), index)

    @property
    def checkpoints(self) -> list[Path]:
        """The files of the folder checkpoints, by name: best.h5, then those of epochs and steps."""
        return sorted((self.path / "checkpoints").glob("*.h5"))

    def model(self, checkpoint: str = "best.h5") -> Model:
        """Reads a checkpoint of this run. Throws InputError if it does not exist.

        >>> vaecf.Run("runs/vectors").model()
        Model('runs/vectors/checkpoints/best.h5'): ..., 20 items
        """
        return Model(self.path / "checkpoints" / checkpoint)

    def checksum(self, checkpoint: str = "best.h5") -> str:
        """Returns the checksum in the first 512 bytes of a checkpoint, as 16 hexadecimal digits; empty without one.

        >>> len(vaecf.Run("runs/vectors").checksum())
        16
        """
        try:
            with open(self.path / "checkpoints" / checkpoint, "rb") as file:
                header = file.read(32)
        except OSError:
            return ""
        if len(header) < 32 or not header.startswith(b"VAECFCKP"):
            return ""
        return f"{struct.unpack_from('<Q', header, 24)[0]:016x}"

    def dataset(self) -> Dataset:
        """Opens the dataset of this run.

        A relative path is that of the folder in which the run was started, so this must be the current folder or one
        above the run. Throws InputError if the dataset does not exist.

        >>> vaecf.Run("runs/vectors").dataset()
        Dataset('data/own.h5'): 60 users, 20 items
        """
        file = Path(str(self.config["data.file"]))
        for folder in [Path(), *self.path.resolve().parents]:
            if (folder / file).is_file():
                return Dataset(folder / file)
        raise InputError(f"{file}: the dataset of {self.path} does not exist here; open it with vaecf.Dataset")

    def _find(self) -> Path:
        """Returns the folder of the run, beside the one that was opened."""
        folder = self._opened if self._opened.name.strip(".") else Path(os.path.abspath(self._opened))
        moved = [path for path in folder.parent.glob(f"{glob.escape(folder.name)}.*") if path.suffix[1:].isdigit()]
        for path in [self._opened, *moved]:
            if first_start(path / "metrics.jsonl") == self._start:
                return path
        raise InputError(
            f"{self._opened}: the run that was opened here was deleted or moved, and is not in {folder.name}.1 and so on "
            "either; open it where it is now, with vaecf.Run"
        )


def names_of(runs: Sequence[Run]) -> list[str]:
    """Returns the names of the runs; their paths if two have the same name."""
    names = [run.name for run in runs]
    return [escaped(name) for name in (names if len(set(names)) == len(names) else [str(run.path) for run in runs])]


def seed_groups(runs: Sequence[Run]) -> list[list[int]]:
    """Returns groups of at least two runs, by index, whose configurations differ by `name` and `train.seed` only.

    `vaecf_dist --seeds` makes such runs. Of several runs with the same seed, the last one counts.
    """
    groups: dict[str, dict[str, int]] = {}
    for i, run in enumerate(runs):
        others = {key: value for key, value in run.config.items() if key not in ("name", "train.seed")}
        groups.setdefault(repr(sorted(others.items())), {})[str(run.config.get("train.seed"))] = i
    return [sorted(group.values()) for group in groups.values() if len(group) > 1]


def _row(event: Event) -> dict[str, Any]:
    """Returns the fields of an event, with its settings and metrics beside the others."""
    fields = {key: value for key, value in event.items() if key != "event" and not isinstance(value, dict)}
    return fields | event.get("settings", {}) | flat_metrics(event)


def _by_epoch(table: pd.DataFrame) -> pd.DataFrame:
    """Returns a table with the epoch or solution as index; of several rows of one, the last one."""
    key = next((name for name in ("epoch", "solution") if name in table), None)
    return table if key is None else table.drop_duplicates(key, keep="last").set_index(key).sort_index()
