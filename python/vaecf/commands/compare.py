"""Compares recommenders user by user, from the files of --per-user that vaecf_dist --test and evaluate write."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy import stats

from .. import errors
from ..dataset import open_hdf5, read_attributes, read_values
from ..errors import InputError
from ..events import smallest_is_best

Array = np.ndarray[Any, Any]

COLUMNS = ["reference", "mean", "difference", "se", "low", "high", "better", "worse"]
COLUMNS += ["t_p", "t_holm", "wilcoxon_p", "wilcoxon_holm"]


ITEM_GROUPS = ("head", "tail")


class PerUser:
    """The metrics of each test user of one model and of the baselines tested with it."""

    def __init__(self, path: str | Path) -> None:
        """Reads a file of --per-user, or per-user.h5 of the folder of a run. Throws InputError if it is not one."""
        self.path = path = Path(path)
        if path.is_dir():
            self.path = path / "per-user.h5"
            if not self.path.is_file():
                raise InputError(f"{self.path}: does not exist; write it with: {self.command(path)}")
        with open_hdf5(self.path) as file:
            attributes = read_attributes(file)
            if "metrics" not in attributes or "user_id" not in file:
                raise InputError(f"{self.path}: is not a file of --per-user of vaecf_dist --test or vaecf_dist evaluate")
            self.model = str(attributes.get("model", ""))
            self.checkpoint = str(attributes.get("checkpoint", ""))
            self.checkpoint_xxh3 = str(attributes.get("checkpoint_xxh3", ""))
            """The checksum that the tested checkpoint begins with, as Run.checksum()."""
            self.step = attributes.get("step")
            self.dataset_checksum = attributes.get("dataset_checksum")
            self.split = str(attributes.get("split", "test"))
            self.metrics = [name for name in str(attributes["metrics"]).split(", ") if name]
            self.metrics_of_groups: list[str] = []
            self.groups = [name for name in str(attributes.get("groups", "")).split(", ") if name]
            columns = ["user_id", "history", "targets", "target_popularity", *self.metrics]
            columns += [f"{group}/{metric}" for group in self.groups for metric in self.metrics]
            groups = [group for group in ITEM_GROUPS if f"{group}/targets" in file]
            columns += [f"{group}/{name}" for group in groups for name in ("targets", *self.metrics)]
            columns = [name for name in columns if name in file]
            self.table = pd.DataFrame(
                {name: pd.Series(values, dtype=values.dtype) for name in columns for values in [read_values(file, name)]}
            )
            """One row per user: user_id, history, targets, target_popularity, each metric, GROUP/METRIC of baselines, and of
            targets in the head and in the tail: their number, and metrics, which are NaN without one."""
            for group in groups:
                own = [f"{group}/{name}" for name in self.metrics if f"{group}/{name}" in self.table]
                self.table.loc[self.table[f"{group}/targets"] == 0, own] = np.nan
                self.metrics_of_groups += own

    @staticmethod
    def command(run: Path) -> str:
        """Returns the command that writes per-user.h5 of a run."""
        return f"vaecf_dist {run}/config.yaml --test --per-user {run}/per-user.h5"

    @property
    def title(self) -> str:
        """The name of the run, or else the type of the model."""
        folder = Path(self.checkpoint).parent
        return folder.parent.name if folder.name == "checkpoints" and folder.parent.name else self.model


def bootstrap_intervals(
    values: Array, samples: int = 2000, level: float = 0.95, seed: int = 0
) -> tuple[Array, Array]:
    """Returns the ends of the percentile interval of the mean of each column of `values`, (users, columns), without NaN.

    Each of the bootstrap samples draws users with replacement, the same ones for all columns.
    """
    counts = ~np.isnan(values)
    values = np.where(counts, values, 0.0)
    random = np.random.default_rng(seed)
    users = len(values)
    means = np.empty((samples, values.shape[1]))
    for i in range(samples):
        drawn = np.bincount(random.integers(0, users, users), minlength=users)
        means[i] = drawn @ values / np.maximum(1, drawn @ counts)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def t_test(differences: Array) -> float:
    """Returns the p value of the two-sided paired t test."""
    mean, error = differences.mean(), _standard_error(differences)
    return float(2 * stats.t.sf(abs(mean) / error, len(differences) - 1)) if error > 0 else float(mean == 0)


def wilcoxon(differences: Array) -> float:
    """Returns the p value of the two-sided Wilcoxon signed-rank test, by the normal distribution corrected for ties.

    The ranks of differences of zero are split evenly between both signs. Those that agree to 12 decimals are ties.
    """
    return float(stats.wilcoxon(differences.round(12), zero_method="zsplit", method="approx").pvalue)


def holm(p: Array) -> Array:
    """Returns the p values adjusted by Holm's method (Scandinavian Journal of Statistics 1979), in the same order."""
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1)
    return adjusted


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5)


def _match(reference: PerUser, other: PerUser) -> pd.DataFrame:
    """Returns the table of `other` in the order of the users of the reference, which must be the same."""
    if reference.dataset_checksum != other.dataset_checksum:
        raise InputError(f"{reference.path} and {other.path} are of different datasets; test both on one dataset")
    if reference.split != other.split:
        raise InputError(
            f"{other.path}: is of the {other.split} users, but {reference.path} of the {reference.split} users; "
            "use one split"
        )
    users, others = pd.Index(reference.table["user_id"]), pd.Index(other.table["user_id"])
    for file, ids in ((reference, users), (other, others)):
        if not ids.is_unique:
            raise InputError(f"{file.path}: user {ids[ids.duplicated()][0]} is in it twice; write the file again")
    rows = others.get_indexer(users)
    missing = int((rows < 0).sum())
    more = len(others) - (len(users) - missing)
    if missing or more:
        raise InputError(
            f"{reference.path} and {other.path} have different users: {missing} are only in the first file, "
            f"{more} only in the second; test both on the same users"
        )
    table: pd.DataFrame = other.table.iloc[rows].reset_index(drop=True)
    if "targets" in table and "targets" in reference.table and not table["targets"].equals(reference.table["targets"]):
        raise InputError(f"{reference.path} and {other.path} have different targets; test both on one dataset")
    return table


def compare(
    reference: PerUser, others: Sequence[PerUser], samples: int = 2000, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """Returns the paired differences of the others to the reference: a row per file and metric of both.

    Rows of targets in the head and in the tail, such as head/ndcg@100, are of the users with such targets, at least two.
    Columns: reference and mean (over users), difference, se (its standard error), low and high (bootstrap interval),
    better and worse (shares of users for whom the other file is better or worse), the p values t_p and wilcoxon_p, and
    t_holm and wilcoxon_holm, which are adjusted over all rows, those of the head, and those of the tail. The index is (file, metric).
    Throws InputError if the users differ.
    """
    if len(reference.table) < 2:
        raise InputError(f"{reference.path}: a comparison needs at least 2 users, got {len(reference.table)}")
    differences, rows = [], []
    for other in others:
        table = _match(reference, other)
        in_both = set(reference.table).intersection(other.metrics + other.metrics_of_groups, table)
        metrics = [name for name in reference.metrics + reference.metrics_of_groups if name in in_both]
        if not metrics:
            raise InputError(
                f"{reference.path} and {other.path} have no metric in common; set evaluation.metrics to the same list"
            )
        for metric in metrics:
            first, second = reference.table[metric].to_numpy(), table[metric].to_numpy()
            difference = second - first
            counts = ~np.isnan(difference)
            if counts.sum() < 2:
                continue
            differences.append(difference)
            first, second, difference = first[counts], second[counts], difference[counts]
            gain = -difference if smallest_is_best(metric) else difference
            rows.append(
                {
                    "file": str(other.path),
                    "metric": metric,
                    "reference": first.mean(),
                    "mean": second.mean(),
                    "difference": difference.mean(),
                    "se": _standard_error(difference),
                    "better": (gain > 0).mean(),
                    "worse": (gain < 0).mean(),
                    "t_p": t_test(difference),
                    "wilcoxon_p": wilcoxon(difference),
                }
            )
    result = pd.DataFrame(rows).set_index(["file", "metric"])
    result["low"], result["high"] = bootstrap_intervals(np.stack(differences, axis=1), samples, level, seed)
    groups = np.array([metric.rpartition("/")[0] for _, metric in result.index])
    for test in ("t", "wilcoxon"):
        adjusted = result[f"{test}_p"].to_numpy().copy()
        for group in set(groups):
            adjusted[groups == group] = holm(adjusted[groups == group])
        result[f"{test}_holm"] = adjusted
    return result[COLUMNS]


def _format_p(p: float) -> str:
    return f"{p:.4f}" if p >= 0.001 else f"{p:.1e}"


def format_comparison(files: Sequence[PerUser], table: pd.DataFrame, samples: int, level: float) -> str:
    """Returns the comparison as text for a terminal. The first of `files` is the reference."""
    numbers = {str(file.path): number for number, file in enumerate(files, 1)}
    lines = [
        f"{number}: {file.path} ({', '.join({file.title: 0, file.model: 0})}){', the reference' if number == 1 else ''}"
        for number, file in enumerate(files, 1)
    ]
    lines += [
        "",
        f"{len(files[0].table)} users; difference to the reference of the same user +- its standard error; interval of "
        f"{100 * level:g} % by {samples} bootstrap samples of users;",
        "p of the t test and of Wilcoxon's signed-rank test, each also adjusted by Holm's method over the "
        f"{sum('/' not in metric for _, metric in table.index)} rows"
        f"{', and over those of the head and of the tail' if any('/' in metric for _, metric in table.index) else ''}",
        "",
        f"  file  {'metric':<14}{'reference':>10}{'mean':>9}{'difference':>12}{'interval':>26}{'better':>10}"
        f"{'worse':>8}{'t':>9}{'adjusted':>10}{'Wilcoxon':>10}{'adjusted':>10}",
    ]
    for key, row in table.iterrows():
        path, metric = cast(tuple[str, str], key)
        interval = f"{row.low:+.4f} to {row.high:+.4f}"
        p = "".join(f"{_format_p(value):>10}" for value in row[COLUMNS[-4:]])
        mark = "  *" if row.t_holm < 1 - level else ""
        lines.append(
            f"  {numbers[path]:>4}  {metric!s:<14}{row.reference:>10.4f}{row['mean']:>9.4f}"
            f"{row.difference:>+9.4f} +- {row.se:.4f}{interval:>20}"
            f"{100 * row.better:>8.1f} %{100 * row.worse:>6.1f} %{p[1:]}{mark}"
        )
    return "\n".join([*lines, "", f"  * the adjusted p of the t test is below {1 - level:.3g}"])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `vaecf compare`."""
    parser.add_argument("reference", metavar="A.h5", help="a file of --per-user, of vaecf_dist --test or evaluate, or the folder of a run that has per-user.h5")
    parser.add_argument("others", metavar="B.h5", nargs="+", help="those to compare with it, on the same users")
    parser.add_argument("--samples", type=int, default=2000, help="bootstrap samples (default: 2000)")
    parser.add_argument("--level", type=float, default=0.95, help="level of the interval (default: 0.95)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap samples (default: 0)")
    parser.add_argument("--csv", metavar="FILE", help="also write the table as CSV")


def run(options: argparse.Namespace) -> int:
    """Prints the comparison of the files."""
    if options.samples < 100:
        raise InputError(f"--samples: must be at least 100, got {options.samples}")
    if not 0 < options.level < 1:
        raise InputError(f"--level: must be greater than 0 and below 1, got {options.level:g}")
    files = [PerUser(path) for path in (options.reference, *options.others)]
    table = compare(files[0], files[1:], options.samples, options.level, options.seed)
    print(format_comparison(files, table, options.samples, options.level))
    if options.csv:
        try:
            table.to_csv(options.csv)
        except OSError as error:
            raise InputError(f"--csv {options.csv}: {error.strerror}") from None
    return errors.DONE
