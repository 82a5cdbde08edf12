"""Reads the events of a run, one JSON object per line of metrics.jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .errors import InputError

Event = dict[str, Any]


def parse_events(lines: Iterable[str]) -> list[Event]:
    """Returns the events of lines of JSON. Lines that are incomplete, as the last one of a run at work may be, are left
    out."""
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(event, dict) and "event" in event:
            events.append(event)
    return events


def read_events(file: str | Path) -> list[Event]:
    """Returns the events of a metrics.jsonl. Throws InputError if it cannot be read."""
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            return parse_events(lines)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}; pass the folder of a run") from None


def first_start(file: str | Path) -> Event | None:
    """Returns the first event `start` of a metrics.jsonl; None if there is none, or no such file.

    It identifies a run by its id: a resumed run keeps it, and a later run of the same name has another one.
    """
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            return next((event for line in lines for event in parse_events([line]) if event["event"] == "start"), None)
    except OSError:
        return None


def metric_names(event: Event) -> list[str]:
    """Returns the names of the model's own metrics in an event `validation`, `solve` or `test`: those of the form NAME@K
    or new_items_NAME@K without the prefix of a baseline."""
    names = [name for name in event if "@" in name and not name.endswith(("_se", "_random")) and "_history" not in name]

    # The prefix of a baseline is followed by the name of a metric of the model, as in popularity_ndcg@100.
    def has_prefix(name: str) -> bool:
        return any(name not in (other, f"new_items_{other}") and name.endswith(f"_{other}") for other in names)

    return [name for name in names if not has_prefix(name)]


def solution_names(event: Event) -> list[str]:
    """Returns the names of the parameters that may be searched, and of the seconds, of an event `solve`: its numbers with
    a point up to the seconds. Parameters that are whole numbers, as the number of neighbors, have one value in a run."""
    names = list(event)
    last = names.index("seconds") if "seconds" in event else -1
    return [name for name in names[: last + 1] if isinstance(event[name], float)]


def smallest_is_best(metric: str) -> bool:
    """Returns true for gini@K and mean_popularity@K; of all other metrics the largest value is the best."""
    return metric.rpartition("/")[2].startswith(("gini@", "mean_popularity@"))


def baseline_names(event: Event) -> list[str]:
    """Returns the prefixes of the baselines of an event `test`, such as popularity and cold."""
    metrics = metric_names(event)
    found: dict[str, None] = {}
    for name in event:
        for metric in metrics:
            if name not in metrics and name.endswith(f"_{metric}"):
                found[name.removesuffix(f"_{metric}").removesuffix("_new_items")] = None
    return list(found)
