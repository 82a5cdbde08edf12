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
    """Returns the names of the metrics of an event `validation`, `solve` or `test`, in the order of the configuration."""
    return list(event.get("metrics", {}))


def metric_value(result: Event, metric: str) -> float | None:
    """Returns the value of a metric in an event, or in the result of a baseline or group; None if it has none."""
    value = result.get("metrics", {}).get(metric, {}).get("value")
    return float(value) if isinstance(value, (int, float)) else None


def flat_metrics(result: Event) -> dict[str, Any]:
    """Returns the metrics of an event, or of a baseline or group, as ndcg@100, ndcg@100_se and ndcg@100_random."""
    return {
        name if part == "value" else f"{name}_{part}": value
        for name, metric in result.get("metrics", {}).items()
        for part, value in metric.items()
    }


def results_of(event: Event) -> dict[str, Event]:
    """Returns the results in an event, each with metrics and perhaps groups: `model`, `features_alone` (the model with user
    features as the only input) and the baselines by name."""
    alone = event.get("groups", {}).get("features_alone")
    return {"model": event, **({"features_alone": alone} if alone else {}), **event.get("baselines", {})}


def step_of(event: Event) -> int:
    """Returns the epoch of an event, or the number of its solution; 0 if it has neither."""
    return int(event["epoch"] if "epoch" in event else event.get("solution", 0))


def smallest_is_best(metric: str) -> bool:
    """Returns true for gini@K and mean_popularity@K; of all other metrics the largest value is the best."""
    return metric.rpartition("/")[2].startswith(("gini@", "mean_popularity@"))
