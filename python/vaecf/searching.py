"""Searches settings: the sweep of `vaecf sweep` in Python, whose best trial is tested."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from . import errors
from .commands.sweep import add_arguments, open_sweep
from .dataset import Dataset
from .errors import InputError, RunError, Stopped
from .program import checked_program, resolved_config, run_program, warnings_of
from .run import Run
from .texts import local_path
from .training import HasPath, has_test_users, text_of, weight_rules
from .wording import training_words


@dataclass(frozen=True)
class Sweep:
    """A search of settings.

    >>> found = vaecf.sweep("data/own.h5", {"model.elsa.factors": {"choices": [8, 16]}}, model="elsa", trials=2,
    ...                     progress=False, settings={"train.epochs": 1})
    >>> found.best, found.trials["state"].tolist()
    (Run('runs/sweep-own-elsa/trial-...'), ['complete', 'complete'])
    """

    path: Path
    """Its folder, which `vaecf report` and vaecf.report take, too."""
    trials: pd.DataFrame
    """A row per trial, the best one first: its result on the validation users, and the values of the keys."""
    best: Run
    """The best trial, which is tested if the dataset has test users."""


def sweep(
    data: HasPath | str | Path,
    search: Mapping[str, Any] | str | Path,
    *,
    model: str | None = None,
    name: str | None = None,
    trials: int = 40,
    timeout: str | float | None = None,
    prune: bool = False,
    prune_after: int = 10,
    ranks: int = 1,
    seed: int = 0,
    directory: str | Path | None = None,
    progress: bool = True,
    program: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Sweep:
    """Searches settings with Optuna on the validation users of a dataset, and tests the best trial.

    `search`: the keys with their values, as {"model.latent": {"range": [64, 400], "log": True}, "model.hidden": {"choices":
    [[200], [600]]}}, or a YAML file of them. The first trial has the values of the configuration, if they are among these.
    `model`: the key model.type. `name`: default: the name of the dataset's file and the model; the folder is
    runs/sweep-NAME, or that in `directory`. `trials`: their number, with those of earlier calls: the same call continues a
    search. `timeout`: no trial starts after this time, in seconds, or as "90m" or "1.5h". `prune`: end trials early that are
    worse than the median of the earlier ones in the same epoch, not before the epoch `prune_after`. `seed`: that of the
    search. `settings`: other keys of the configuration by dotted name, which all trials share.

    Throws InputError for wrong arguments, keys or data, and RunError if no trial is complete. An interrupt or a signal stops
    the current trial with a checkpoint, and Stopped is raised.

    >>> found = vaecf.sweep("data/own.h5", {"train.optimizer.learning_rate": {"range": [1e-3, 1e-1], "log": True}}, model="elsa",
    ...                     trials=2, progress=False, settings={"train.epochs": 1, "model.elsa.factors": 8})
    >>> found.trials.columns[:3].tolist(), found.path
    (['trial', 'state', 'ndcg@100'], PosixPath('runs/sweep-own-elsa'))
    >>> "recall@20" in found.best.test
    True
    """
    path: str | Path = getattr(data, "path", data)  # type: ignore[arg-type]
    dataset = data if isinstance(data, Dataset) else Dataset(path)
    dataset.require_unchanged()
    file = dataset.path
    given = {"data.file": file, **({} if model is None else {"model.type": model})}
    for key in given:
        if key in (settings or {}):
            raise InputError(f"settings: {key} is also given by an argument of sweep(); give it once")
    values = {**weight_rules(file), **given, **(settings or {})}
    kind = values.get("model.type") or resolved_config(checked_program(program), os.devnull)["model.type"]
    name = name or f"{file.stem}-{kind}"
    folder = local_path(directory or "runs") / f"sweep-{name}"
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with tempfile.TemporaryDirectory() as temporary:
        base, searched = Path(temporary) / "sweep.yaml", search
        base.write_text("{}\n", encoding="utf-8")
        if isinstance(search, Mapping):
            searched = Path(temporary) / "search.yaml"
            searched.write_text(text_of(search), encoding="utf-8")
        options = parser.parse_args([str(base), "--search", str(searched), "--output", str(folder)])
        options.set = [f"{key}={text_of(value)}" for key, value in values.items()]
        options.trials, options.ranks, options.seed = trials, ranks, seed
        options.timeout = None if timeout is None else str(timeout)
        options.prune, options.prune_after, options.program = prune, prune_after, program

        def told(text: str) -> str:
            for path, word in ((str(searched), "search" if isinstance(search, Mapping) else str(searched)), ("--output", "name=")):
                text = text.replace(path, word)
            for option in ("trials", "ranks", "timeout"):
                text = text.replace(f"--{option}: ", f"{option}= ")
            return training_words(text, base, None)

        try:
            with contextlib.nullcontext() if progress else contextlib.redirect_stdout(io.StringIO()):
                code = open_sweep(options).run()
        except (InputError, RunError) as error:
            raise type(error)(told(str(error))) from None
    if code == errors.STOPPED:
        stopped = Stopped(f"{folder}: the search was stopped; the same call continues it")
        stopped.folder = folder
        raise stopped
    table = pd.read_csv(folder / "trials.csv") if (folder / "trials.csv").is_file() else pd.DataFrame({"state": []})
    if "complete" not in set(table["state"]):
        reasons = table["error"].dropna().tolist() if len(table) else []
        raise RunError(f"{folder}: no trial is complete; {reasons[0] if reasons else 'give more time'}")
    best = folder / str(table["folder"].iloc[0])
    if has_test_users(file):
        command = [str(folder / "best.yaml"), "--test", "--quiet", "--per-user", str(best / "per-user.h5")]
        for text in warnings_of(run_program(command, program=program)[1]):
            warnings.warn(text, stacklevel=2)
    return Sweep(folder, table, Run(best))
