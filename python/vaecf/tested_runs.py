"""The results of the tests of several runs, beside those of their baselines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .events import Event, results_of
from .run import Run, names_of

Value = tuple[float, float | None]

GROUPS = ("head", "tail", "new_items")
"""The groups of held-out items that have metrics of their own."""


def test_columns(runs: Sequence[Run]) -> tuple[dict[str, dict[str, Value]], list[str]]:
    """Returns the value and standard error of each metric for each tested run, and after them for each baseline; and the
    names of the metrics."""
    found: list[tuple[bool, str, str, dict[str, Value]]] = []  # baseline or not, title, name of the run, values
    metrics: dict[str, None] = {}
    names = names_of(runs)
    for name, run in zip(names, runs, strict=True):
        event = run.last("test")
        for of, result in results_of(event).items() if event else ():
            values = values_of(result)
            metrics.update(dict.fromkeys(values))
            title = {"model": name, "features_alone": f"{name}, features alone"}.get(of, of.replace("_", "-"))
            found.append((of != "model", title, name, values))
    columns: dict[str, dict[str, Value]] = {}
    for _, title, name, values in sorted(found, key=lambda column: column[0]):
        # Runs on one dataset share their baselines.
        shared = columns.get(title, values) == values
        columns[title if shared else f"{title} ({name})"] = values
    return columns, list(metrics)


def values_of(result: Event) -> dict[str, Value]:
    """Returns the metrics of a result, and after them those of its groups of held-out items, as new_items/ndcg@100."""
    named = dict(result.get("metrics", {}))
    for group in GROUPS:
        of_group = result.get("groups", {}).get(group, {}).get("metrics", {})
        named |= {f"{group}/{name}": metric for name, metric in of_group.items()}
    return {name: (float(metric["value"]), metric.get("se")) for name, metric in named.items() if metric.get("value") is not None}


def dataset_of(run: Run) -> tuple[str, str]:
    """Returns the name of the dataset of a run, that of its file, and the checksum of its content."""
    checksum = str(run.start.get("dataset_checksum", ""))
    has_config = (run.path / "config.yaml").is_file()
    return Path(str(run.config["data.file"])).stem if has_config else checksum, checksum


def test_rows(runs: Sequence[Run]) -> dict[tuple[str, str], dict[tuple[str, str, str], Any]]:
    """Returns the metrics of each tested run, and of the baselines of each dataset, which its runs share: by dataset and model, the
    parts value, se and random by group and metric."""
    datasets = [dataset_of(run) for run in runs]
    checksums: dict[str, set[str]] = {}
    for title, checksum in datasets:
        checksums.setdefault(title, set()).add(checksum)
    rows: dict[tuple[str, str], dict[tuple[str, str, str], Any]] = {}
    baselines = []
    for run, name, (title, checksum) in zip(runs, names_of(runs), datasets, strict=True):
        dataset = title if len(checksums[title]) == 1 else f"{title} ({checksum})"
        event = run.last("test")
        for of, result in results_of(event).items() if event else ():
            groups = {"all": result, **{group: result.get("groups", {}).get(group, {}) for group in GROUPS}}
            values = {
                (group, metric, part): value
                for group, of_group in groups.items()
                for metric, parts in of_group.get("metrics", {}).items()
                for part, value in parts.items()
            }
            if of == "model":
                rows[dataset, name] = values
            elif of == "features_alone":
                rows[dataset, f"{name}, features alone"] = values
            else:
                baselines.append((dataset, of.replace("_", "-"), name, values))
    for dataset, title, name, values in baselines:
        shared = rows.get((dataset, title), values) == values
        rows[dataset, title if shared else f"{title} ({name})"] = values
    return rows
