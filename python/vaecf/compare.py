"""Compares two models user by user, from the files that vaecf_dist --test --per-user writes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from . import errors
from .dataset import open_hdf5, read_attributes, read_values
from .errors import InputError
from .events import smallest_is_best

Array = np.ndarray[Any, Any]


class PerUser:
    """The metrics of each test user of one model and of the baselines tested with it."""

    def __init__(self, path: str | Path) -> None:
        """Reads a file of --per-user. Throws InputError if it is not one."""
        self.path = Path(path)
        with open_hdf5(path) as file:
            attributes = read_attributes(file)
            if "metrics" not in attributes or "user_id" not in file:
                raise InputError(f"{path}: is not a file of vaecf_dist --test --per-user FILE.h5")
            self.model = str(attributes.get("model", ""))
            self.checkpoint = str(attributes.get("checkpoint", ""))
            self.checkpoint_xxh3 = str(attributes.get("checkpoint_xxh3", ""))
            """The checksum that the tested checkpoint begins with, as Run.checksum()."""
            self.step = attributes.get("step")
            self.dataset_checksum = attributes.get("dataset_checksum")
            self.metrics = [name for name in str(attributes["metrics"]).split(", ") if name]
            self.groups = [name for name in str(attributes.get("groups", "")).split(", ") if name]
            columns = ["user_id", "history", "targets", "target_popularity", *self.metrics]
            columns += [f"{group}/{metric}" for group in self.groups for metric in self.metrics]
            columns = [name for name in columns if name in file]
            self.table = pd.DataFrame(
                {name: pd.Series(values, dtype=values.dtype) for name in columns for values in [read_values(file, name)]}
            )
            """One row per user: user_id, history, targets, target_popularity, each metric, and GROUP/METRIC of baselines."""

    @property
    def title(self) -> str:
        """The name of the run, or else the type of the model."""
        folder = Path(self.checkpoint).parent
        return folder.parent.name if folder.name == "checkpoints" and folder.parent.name else self.model


def bootstrap_interval(values: Array, samples: int = 2000, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Returns the percentile interval of the mean of `values` over bootstrap samples of the users."""
    random = np.random.default_rng(seed)
    count = len(values)
    means = np.empty(samples)
    for i in range(samples):
        means[i] = np.take(values, random.integers(0, count, count)).mean()
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def compare(a: PerUser, b: PerUser, samples: int = 2000, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """Returns the paired differences b - a: a row per metric of both files.

    Columns: a, b (means over users), difference, se (standard error of the difference), low, high (bootstrap interval),
    better, worse (shares of users for whom b is better or worse). Throws InputError if the users differ.
    """
    if a.dataset_checksum != b.dataset_checksum:
        raise InputError(f"{a.path} and {b.path} are of different datasets; test both models on one dataset")
    if not np.array_equal(a.table["user_id"], b.table["user_id"]):
        raise InputError(f"{a.path} and {b.path} have different users; test both models on the same users")
    count = len(a.table)
    if count < 2:
        raise InputError(f"{a.path}: a comparison needs at least 2 users, got {count}")
    rows = []
    for metric in (name for name in a.metrics if name in b.metrics and name in a.table and name in b.table):
        first, second = a.table[metric].to_numpy(), b.table[metric].to_numpy()
        difference = second - first
        low, high = bootstrap_interval(difference, samples, level, seed)
        rows.append(
            {
                "metric": metric,
                "a": first.mean(),
                "b": second.mean(),
                "difference": difference.mean(),
                "se": difference.std(ddof=1) / count**0.5,
                "low": low,
                "high": high,
                "better": (difference < 0 if smallest_is_best(metric) else difference > 0).mean(),
                "worse": (difference > 0 if smallest_is_best(metric) else difference < 0).mean(),
            }
        )
    if not rows:
        raise InputError(f"{a.path} and {b.path} have no metric in common; set validation.metrics to the same list")
    return pd.DataFrame(rows).set_index("metric")


def format_comparison(a: PerUser, b: PerUser, table: pd.DataFrame, level: float) -> str:
    """Returns the comparison as text for a terminal."""
    lines = [
        f"a: {a.path} ({a.title}, {a.model})",
        f"b: {b.path} ({b.title}, {b.model})",
        f"{len(a.table)} users; b - a of the same user, +- its standard error; interval of {100 * level:g} % by bootstrap",
        "",
        f"  {'metric':<14}{'a':>9}{'b':>9}{'b - a':>11}{'':>11}{'interval':>21}{'b better':>10}{'b worse':>9}",
    ]
    for metric, row in table.iterrows():
        interval = f"{row.low:+.4f} to {row.high:+.4f}"
        mark = "  *" if row.low > 0 or row.high < 0 else ""
        lines.append(
            f"  {metric!s:<14}{row.a:>9.4f}{row.b:>9.4f}{row.difference:>+11.4f} +- {row.se:.4f}  {interval:>21}"
            f"{100 * row.better:>8.1f} %{100 * row.worse:>7.1f} %{mark}"
        )
    return "\n".join([*lines, "", "  * the interval does not contain 0"])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `vaecf compare`."""
    parser.add_argument("a", metavar="A.h5", help="a file of vaecf_dist --test --per-user")
    parser.add_argument("b", metavar="B.h5", help="that of the other model, on the same users")
    parser.add_argument("--samples", type=int, default=2000, help="bootstrap samples (default: 2000)")
    parser.add_argument("--level", type=float, default=0.95, help="level of the interval (default: 0.95)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap samples (default: 0)")
    parser.add_argument("--csv", metavar="FILE", help="also write the table as CSV")


def run(options: argparse.Namespace) -> int:
    """Prints the comparison of two files."""
    if options.samples < 100:
        raise InputError(f"--samples: must be at least 100, got {options.samples}")
    if not 0 < options.level < 1:
        raise InputError(f"--level: must be greater than 0 and below 1, got {options.level:g}")
    a, b = PerUser(options.a), PerUser(options.b)
    table = compare(a, b, options.samples, options.level, options.seed)
    print(format_comparison(a, b, table, options.level))
    if options.csv:
        try:
            table.to_csv(options.csv)
        except OSError as error:
            raise InputError(f"--csv {options.csv}: {error.strerror}") from None
    return errors.DONE
