"""Searches hyper-parameters with Optuna; every trial is a run of vaecf_dist."""

from __future__ import annotations

import argparse
import contextlib
import csv
import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from .. import errors
from ..errors import BusyError, InputError, Stopped, install
from ..events import smallest_is_best
from ..program import (
    DEFAULT_MPIRUN,
    checked_program,
    find_config,
    launcher,
    rank_environment,
    resolved_config,
    settings_arguments,
)
from ..search_space import Value, read_search, scalar, text_of
from ..trial import events_of, execute, failure, open_no_link, stop_signals, validations
from ..yaml_files import flatten, load_yaml, nested


def parse_duration(text: str) -> float:
    """Returns the seconds of a duration: 90, 90s, 30m or 1.5h. Throws InputError if it is not one."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?)([smh]?)", text.strip())
    if not match or float(match[1]) <= 0:
        raise InputError(f"--timeout: must be seconds or a number with s, m or h, e.g. 90m or 1.5h, got {text}")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = open_no_link(f"{folder}/lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise InputError(f"{folder}/lock: cannot be opened: {error.strerror}; remove it, or use another --output") from None
    with open(descriptor, "r+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(f"{folder}: another sweep is at work in this folder; use another --output") from None
        yield


class Sweep:
    """A search in one folder: its trials are run folders, and its results are in an SQLite database."""

    def __init__(self, options: argparse.Namespace) -> None:
        import optuna  # an extra of the package  # pylint: disable=import-outside-toplevel

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.optuna = optuna
        self.states = optuna.trial.TrialState
        self.options = options
        self.program = checked_program(options.program)
        self.command = launcher(options.ranks, options.mpirun)
        self.parameters = read_search(options.search)
        self.settings = self._settings()
        self.base = resolved_config(self.program, options.config, settings_arguments(self.settings))
        self.start = self._values_of_configuration()
        # Lists of several values in a range, which no other trial can have. They are not passed to Optuna.
        self.lists = {p.key: text_of(scalar(self.base[p.key])) for p in self.parameters if p.holds_all(self.base.get(p.key))}
        self.metric = str(self.base["validation.select"])
        if self.metric == "last":
            raise InputError("validation.select: must be a metric in a sweep; use e.g. --set validation.select=ndcg@100")
        self.folder = Path(options.output or f"runs/sweep-{self.base['name']}")

    def _settings(self) -> dict[str, str]:
        """Returns the settings that all trials share."""
        settings = {"run.checkpoint_every": "never"}  # Of a trial only the best weights are of interest.
        for text in self.options.set:
            key, separator, value = text.partition("=")
            if not separator:
                raise InputError(f"--set {text}: must be KEY=VALUE")
            settings[key] = value
        searched = {parameter.key for parameter in self.parameters}
        for key in [*settings, *searched]:
            if key in ("name", "run.directory"):
                raise InputError(f"{key}: is set by the sweep; use --output")
        for text in self.options.set:
            if text.partition("=")[0] in searched:
                raise InputError(f"--set {text}: this key is searched by {self.options.search}")
        return {key: value for key, value in settings.items() if key not in searched}

    def _values_of_configuration(self) -> dict[str, Value | None]:
        """Returns the value of the configuration for each key, None if it is not among those to search. Throws InputError if
        vaecf_dist does not accept an end of a range or a choice."""
        start: dict[str, Value | None] = {}
        for parameter in self.parameters:
            start[parameter.key] = None if parameter.choices else parameter.in_range(self.base.get(parameter.key))
            for value in parameter.extremes():
                changed = {**self.settings, parameter.key: text_of(value)}
                try:
                    config = resolved_config(self.program, self.options.config, settings_arguments(changed))
                except InputError as error:
                    raise InputError(f"{self.options.search}: {error}") from None
                # A choice that does not change the configuration is its value, in whatever notation.
                if parameter.choices and start[parameter.key] is None and config == self.base:
                    start[parameter.key] = value
        return start

    # The study

    def open_study(self) -> Any:
        """Opens or creates the study. Throws InputError if it is that of another search."""
        storage = self.options.storage or str(self.folder / "sweep.db")
        url = storage if "://" in storage else f"sqlite:///{Path(storage).resolve()}"
        study = self.optuna.create_study(
            storage=url,
            study_name=self.folder.resolve().name,
            direction="minimize" if smallest_is_best(self.metric) else "maximize",
            load_if_exists=True,
        )
        existing = len(study.trials)
        # Shifted by the number of trials, because a resumed sampler would repeat its first random values.
        study.sampler = self.optuna.samplers.TPESampler(seed=self.options.seed + existing)
        study.pruner = self.optuna.pruners.NopPruner()
        if self.options.prune:
            study.pruner = self.optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=self.options.prune_after)
        shared = {key: value for key, value in self.base.items() if key not in ("name", "run.directory")}
        described = {"configuration": shared, "metric": self.metric, "search": [str(p) for p in self.parameters]}
        for name, value in json.loads(json.dumps(described, default=str)).items():
            if study.user_attrs.setdefault(name, value) != value:
                raise InputError(f"{storage}: contains a sweep with another {name}; use another --output or --storage")
            if not existing:
                study.set_user_attr(name, value)
        numbers = {key: value for key, value in self.start.items() if key not in self.lists}
        if not existing and None not in numbers.values():  # The first trial has the values of the configuration.
            study.enqueue_trial(numbers, user_attrs={"lists": self.lists})
        self._retry_interrupted(study)
        return study

    def _retry_interrupted(self, study: Any) -> None:
        """Queues trials again that were at work when the sweep ended; their runs continue from their checkpoints."""
        for trial in study.get_trials(deepcopy=False, states=[self.states.RUNNING]):
            study.tell(trial.number, state=self.states.FAIL)
            study.set_user_attr(f"interrupted-{trial.number}", True)
            lists = self._lists_of(trial)
            if trial.params or lists:
                study.enqueue_trial(trial.params, user_attrs={"folder": self._folder_name(trial), "lists": lists})

    @staticmethod
    def _folder_name(trial: Any) -> str:
        return str(trial.user_attrs.get("folder", f"trial-{trial.number:04d}"))

    @staticmethod
    def _lists_of(trial: Any) -> dict[str, str]:
        """Returns the values of the keys for which a trial has that of the configuration, a list."""
        return dict(trial.user_attrs.get("lists", {}))

    def finished(self, study: Any) -> list[Any]:
        """Returns the trials that have ended, without interrupted ones."""
        trials = study.get_trials(deepcopy=False)
        return [t for t in trials if t.state.is_finished() and f"interrupted-{t.number}" not in study.user_attrs]

    # A trial

    def run(self) -> int:
        """Runs trials until there are enough or time is up. Returns the exit code."""
        seconds = parse_duration(self.options.timeout) if self.options.timeout else float("inf")
        with _locked(self.folder), stop_signals():
            study = self.open_study()
            deadline = time.monotonic() + seconds
            stopped = False
            while len(self.finished(study)) < self.options.trials and time.monotonic() < deadline:
                try:
                    self.run_trial(study, study.ask())
                except Stopped:
                    # The trial stays RUNNING in the database, so that the next call queues it again.
                    stopped = True
                    break
            return self.conclude(study, stopped)

    def run_trial(self, study: Any, trial: Any) -> None:
        """Runs one trial and records its result, also that of a failure."""
        values = self._lists_of(trial)
        values = {p.key: values.get(p.key) or text_of(p.suggest(trial)) for p in self.parameters}
        folder = self.folder / self._folder_name(trial)
        trial.set_user_attr("folder", folder.name)
        started = time.monotonic()
        settings = {**self.settings, **values, "run.directory": str(self.folder), "name": folder.name}
        command = [*self.command, self.program, self.options.config, "--train", "--resume", "auto"]
        command += settings_arguments(settings)
        environment = rank_environment(self.options.ranks, self.options.mpirun)
        code, pruned = execute(command, environment, folder, trial, self.metric, self.options.prune)
        events = events_of(folder)
        results = validations(events, self.metric)
        unit = "solution" if any(event.get("event") == "solve" for event in events) else "epoch"
        trial.set_user_attr("seconds", round(time.monotonic() - started, 3))
        choose = min if smallest_is_best(self.metric) else max
        best_epoch, value = choose(results, key=lambda result: result[1], default=(0, 0.0))
        if results:
            trial.set_user_attr("best_epoch", best_epoch)
            trial.set_user_attr("epochs", results[-1][0])
        outcome = f"{self.metric} {value:.4f}, {unit} {best_epoch} of {results[-1][0]}" if results else ""
        if pruned:
            study.tell(trial, state=self.states.PRUNED)
            outcome = f"pruned; {outcome}"
        elif code == 0 and results:
            study.tell(trial, value)
            outcome += "  best" if study.best_trial.number == trial.number else ""
        else:
            reason = failure(folder, code, self.metric)
            trial.set_user_attr("error", reason)
            study.tell(trial, state=self.states.FAIL)
            outcome = f"failed: {reason}"
        print(f"trial {trial.number}: {' '.join(f'{key}={value}' for key, value in values.items())}\n  {outcome}", flush=True)

    # The result

    def rows(self, study: Any) -> list[dict[str, Any]]:
        """Returns one row per trial, the best first, pruned and failed ones last."""
        complete, sign = self.states.COMPLETE, 1.0 if smallest_is_best(self.metric) else -1.0
        trials = sorted(self.finished(study), key=lambda t: (t.state != complete, sign * (t.value or 0.0), t.number))
        return [
            {
                "trial": t.number,
                "state": {"COMPLETE": "complete", "PRUNED": "pruned"}.get(t.state.name, "failed"),
                self.metric: t.value,
                "best_epoch": t.user_attrs.get("best_epoch"),
                "epochs": t.user_attrs.get("epochs"),
                "seconds": t.user_attrs.get("seconds"),
                **{p.key: self._lists_of(t).get(p.key, t.params.get(p.key)) for p in self.parameters},
                "error": t.user_attrs.get("error", ""),
                "folder": t.user_attrs.get("folder", ""),
            }
            for t in trials
        ]

    def conclude(self, study: Any, stopped: bool) -> int:
        """Writes the table and the best configuration. Returns the exit code."""
        rows = self.rows(study)
        counts = {state: sum(row["state"] == state for row in rows) for state in ("complete", "pruned", "failed")}
        if rows:
            with open(self.folder / "trials.csv", "w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, fieldnames=list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
            # With the ranges and choices, for `vaecf report`.
            (self.folder / "search.yaml").write_bytes(Path(self.options.search).read_bytes())
            print(format_table([{k: v for k, v in row.items() if k not in ("error", "folder")} for row in rows]))
        print(f"{len(rows)} trials: {', '.join(f'{count} {state}' for state, count in counts.items())}; see {self.folder}/trials.csv")
        if counts["complete"]:
            best = self.folder / "best.yaml"
            best.write_text(self.best_configuration(rows[0]), encoding="utf-8")
            print(f"best: trial {rows[0]['trial']}, {self.metric} {rows[0][self.metric]:.4f}; test it with")
            print(f"  {self.program} {best} --test")
        if stopped:
            print("stopped on request; the same command resumes", file=sys.stderr)
            return errors.STOPPED
        return errors.DONE if counts["complete"] or not rows else errors.FAILED

    def best_configuration(self, row: dict[str, Any]) -> str:
        """Returns the configuration of a trial as YAML, such that --test evaluates its checkpoint."""
        changed = {**self.settings, **{p.key: text_of(row[p.key]) for p in self.parameters}}
        changed |= {"run.directory": str(self.folder), "name": row["folder"]}
        # The program resolves the keys, which may be dotted in the file, have short forms, and exclude each other.
        resolved = resolved_config(self.program, self.options.config, settings_arguments(changed))
        defaults = resolved_config(self.program, os.devnull)
        given = {*flatten(load_yaml(find_config(self.program, self.options.config)) or {}), *changed}
        config = nested({k: value for k, value in resolved.items() if k in given or value != defaults.get(k)})
        title = f"# Trial {row['trial']} of `vaecf sweep`: {self.metric} {row[self.metric]:.6f} on the validation users.\n"
        return title + str(yaml.safe_dump(config, sort_keys=False, default_flow_style=None))


def format_table(rows: Sequence[dict[str, Any]]) -> str:
    """Formats rows with equal keys as a text table."""

    def cell(value: Any) -> str:
        if value is None:
            return "-"
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    lines = [list(rows[0])] + [[cell(value) for value in row.values()] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths)) for line in lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `vaecf sweep`."""
    add = parser.add_argument
    add("config", help="configuration of vaecf_dist; each trial changes keys of it")
    add("--search", required=True, metavar="FILE", help="YAML file of the keys to search and their values")
    add("--trials", type=int, default=40, help="number of trials in total, with those of earlier calls (default: 40)")
    add("--ranks", type=int, default=1, help="ranks of a trial; several are started by mpirun (default: 1)")
    add("--timeout", metavar="TIME", help="no trial starts after this time: seconds, or e.g. 90m, 1.5h")
    add("--output", metavar="FOLDER", help="folder of the sweep (default: runs/sweep-NAME)")
    add("--storage", metavar="FILE", help="SQLite database, or URL for Optuna (default: sweep.db in the folder)")
    add("--seed", type=int, default=0, help="random seed of the search (default: 0)")
    add("--prune", action="store_true", help="end trials early that are worse than the median of earlier ones")
    add("--prune-after", type=int, default=10, metavar="EPOCHS", help="no pruning before this epoch (default: 10)")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="passed to every trial; repeatable")
    add("--program", metavar="FILE", help="path of vaecf_dist (default: VAECF_PROGRAM, that of this package, PATH)")
    add("--mpirun", default=DEFAULT_MPIRUN, metavar="COMMAND", help="launcher of several ranks; -np N is added")


def open_sweep(options: argparse.Namespace) -> Sweep:
    """Returns the search that the options describe. Throws InputError if they are wrong, or without Optuna."""
    for name in ("trials", "ranks"):
        if getattr(options, name) < 1:
            raise InputError(f"--{name}: must be at least 1, got {getattr(options, name)}")
    try:
        return Sweep(options)
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        raise InputError(f"vaecf sweep requires Optuna; install it with: {install('sweep')}") from None


def run(options: argparse.Namespace) -> int:
    """Runs `vaecf sweep`. Returns the exit code."""
    return open_sweep(options).run()
