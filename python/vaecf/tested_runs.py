"""The results of the tests of several runs, beside those of their baselines."""

from __future__ import annotations

from collections.abc import Sequence

from .events import baseline_names, metric_names
from .run import Run, names_of

Value = tuple[float, float | None]


def test_columns(runs: Sequence[Run]) -> tuple[dict[str, dict[str, Value]], list[str]]:
    """Returns the value and standard error of each metric for each tested run, and after them for each baseline; and the
    names of the metrics."""
    found: list[tuple[bool, str, str, dict[str, Value]]] = []  # baseline or not, title, name of the run, values
    metrics: dict[str, None] = {}
    names = names_of(runs)
    for name, run in zip(names, runs, strict=True):
        event = run.last("test")
        for group in ["", *baseline_names(event)]:
            prefix = f"{group}_" if group else ""
            values = {
                metric: (float(event[prefix + metric]), event.get(f"{prefix}{metric}_se"))
                for metric in metric_names(event)
                if event.get(prefix + metric) is not None
            }
            metrics.update(dict.fromkeys(values))
            title = {"": name, "cold": f"{name}, features alone"}.get(group, group.replace("_", "-"))
            if event:
                found.append((group != "", title, name, values))
    columns: dict[str, dict[str, Value]] = {}
    for _, title, name, values in sorted(found, key=lambda column: column[0]):
        # Runs on one dataset share their baselines.
        shared = columns.get(title, values) == values
        columns[title if shared else f"{title} ({name})"] = values
    return columns, list(metrics)
