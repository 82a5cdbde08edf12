"""The results of the tests of several runs, beside those of their baselines."""

from __future__ import annotations

from collections.abc import Sequence

from .events import Event, results_of
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
    for group in ("head", "tail", "new_items"):
        of_group = result.get("groups", {}).get(group, {}).get("metrics", {})
        named |= {f"{group}/{name}": metric for name, metric in of_group.items()}
    return {name: (float(metric["value"]), metric.get("se")) for name, metric in named.items() if metric.get("value") is not None}
