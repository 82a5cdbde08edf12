"""Writes the page on a search of hyper-parameters, from the files of `vaecf sweep`."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from . import page
from .charts import Axis, Chart, draw_parallel
from .errors import InputError
from .events import smallest_is_best
from .search_space import Parameter, read_search

Array = np.ndarray[Any, Any]

# So many of the best trials are shown.
MAX_TRIALS = 300
# A parameter's importance compares at most so many groups of trials with similar values, of at least four trials each.
GROUPS = 5
MIN_TRIALS = 8


def is_sweep(folder: str | Path) -> bool:
    """Returns true if the folder is that of a sweep."""
    return (Path(folder) / "trials.csv").is_file()


def _read_trials(folder: Path) -> tuple[str, list[dict[str, str]]]:
    """Returns the name of the metric, and the trials, the best first."""
    try:
        with open(folder / "trials.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return list(rows[0])[2], rows
    except (OSError, UnicodeDecodeError, IndexError):
        raise InputError(f"{folder}/trials.csv: is not a table of `vaecf sweep`; run the sweep again") from None


def positions(parameter: Parameter, texts: Sequence[str]) -> Array:
    """Returns values of a parameter as positions between 0 and 1: on the scale of its range, or equally spaced choices."""
    if parameter.choices:
        names = [str(choice) for choice in parameter.choices]
        return np.array([names.index(text) for text in texts]) / max(1, len(names) - 1)
    ends, values = np.array([parameter.low, parameter.high]), np.array([float(text) for text in texts])
    if parameter.log:
        ends, values = np.log(ends), np.log(values)
    return np.asarray((values - ends[0]) / max(ends[1] - ends[0], 1e-300))


def importance(values: Array, results: Array, choices: bool) -> float:
    """Returns the share of the variance of the ranks of the results between groups of trials with similar values.

    The share is epsilon squared, which is 0 on average if the parameter has no effect. Groups are the choices, or
    quantiles of the values.
    """
    if len(results) < MIN_TRIALS:
        return float("nan")
    groups = values
    if not choices:
        edges = np.unique(np.quantile(values, np.linspace(0, 1, min(GROUPS, len(values) // 4) + 1)))
        groups = np.searchsorted(edges[1:-1], values, side="left")
    ranks = stats.rankdata(results)
    parts = [ranks[groups == group] for group in np.unique(groups)]
    within = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
    total = float(((ranks - ranks.mean()) ** 2).sum())
    if total == 0 or len(parts) == len(ranks):
        return 0.0
    return max(0.0, 1 - within / total * (len(ranks) - 1) / (len(ranks) - len(parts)))


def _is_point(parameter: Parameter, text: str) -> bool:
    """Returns whether a value has a position; a list of the configuration in a range has none."""
    return bool(parameter.choices) or not text.startswith("[")


def _edge(parameter: Parameter, text: str) -> str:
    """Returns smallest or largest if a value is at an end of the values that were searched; else an empty text."""
    if parameter.choices:
        if any(isinstance(choice, (bool, str)) for choice in parameter.choices):
            return ""
        low, high = min(parameter.choices), max(parameter.choices)
        return "" if low == high else {str(low): "smallest", str(high): "largest"}.get(text, "")
    if not _is_point(parameter, text):
        return ""
    place = positions(parameter, [text])[0]
    return "smallest" if place < 0.02 else "largest" if place > 0.98 else ""


def _axis(parameter: Parameter, texts: Sequence[str]) -> Axis:
    if parameter.choices:
        names = [str(choice) for choice in parameter.choices]
        ticks = [(k / max(1, len(names) - 1), name) for k, name in enumerate(names)]
    else:
        middle = (parameter.low * parameter.high) ** 0.5 if parameter.log else (parameter.low + parameter.high) / 2
        ticks = [(0.0, f"{parameter.low:.3g}"), (0.5, f"{middle:.3g}"), (1.0, f"{parameter.high:.3g}")]
    return Axis(parameter.key, positions(parameter, texts), ticks)


def sweep_page(folder: str | Path) -> tuple[str, list[tuple[Chart, Any]]]:
    """Returns the page on the sweep in a folder, and its charts. Throws InputError if its files are missing or invalid."""
    folder = Path(folder)
    metric, trials = _read_trials(folder)
    if not (folder / "search.yaml").is_file():
        raise InputError(f"{folder}/search.yaml: is missing; the same call of `vaecf sweep` again writes it")
    parameters = [each for each in read_search(str(folder / "search.yaml")) if each.key in trials[0]]
    complete = [trial for trial in trials if trial["state"] == "complete"]
    results = np.array([float(trial[metric]) for trial in complete])
    counts = {state: sum(trial["state"] == state for trial in trials) for state in ("complete", "pruned", "failed")}
    words = f"{len(trials)} trials: {', '.join(f'{count} {state}' for state, count in counts.items())}. "
    parts, charts = [page.heading("Summary")], []
    if complete:
        words += f"The best {metric} on the validation users is {results[0]:.4f}, of trial {complete[0]['trial']}. "
        words += "The best of many validations is too optimistic: report the test."
        for parameter in parameters:
            end = _edge(parameter, complete[0][parameter.key])
            if end:
                words += f" Its {parameter.key}, {complete[0][parameter.key]}, is the {end} that was searched; "
                words += f"try {'smaller' if end == 'smallest' else 'larger'} values."
    parts.append(page.paragraph(words))
    drawn = [trial for trial in complete if all(_is_point(each, trial[each.key]) for each in parameters)]
    results = np.array([float(trial[metric]) for trial in drawn])
    if len(drawn) > 1:
        shown = drawn[:MAX_TRIALS]
        axes = [_axis(parameter, [trial[parameter.key] for trial in shown]) for parameter in parameters]
        low, high = sorted((results[0], results[: len(shown)][-1]))
        span = high - low if high > low else 1.0
        ticks = [(0.0, f"{low:.4f}"), (1.0, f"{high:.4f}")]
        axes.append(Axis(metric, (results[: len(shown)] - low) / span, ticks))
        best = max(1, len(shown) // 10)
        chart = Chart("parallel", "Values and results of trials", "", metric)
        charts.append((chart, partial(draw_parallel, chart, axes, best)))
        parts += [page.heading("Trials"), page.wide(page.figure(chart.title, charts[0][1](False)))]
        lists = "" if len(drawn) == len(complete) else " A list of values in a range is not drawn."
        words = f"A line is a complete trial; the best one is bold, the best {best} are colored.{lists}"
        parts.append(page.paragraph(words))
        sign = 1 if smallest_is_best(metric) else -1
        rows = []
        for parameter in parameters:
            values = positions(parameter, [trial[parameter.key] for trial in drawn])
            rows.append((importance(values, sign * results, bool(parameter.choices)), parameter.key))
        rows = [(share, key) for share, key in rows if share == share]
        if rows:
            cells = [[key, page.cell(f"{100 * share:.0f} %")] for share, key in sorted(rows, reverse=True)]
            parts += [page.heading("Importance"), page.table("importance", ["key", "share of the variance"], cells)]
            parts.append(
                page.paragraph(
                    "Share of the variance of the ranks of complete trials between groups with similar values of the key "
                    "(epsilon squared). The search prefers good values, and effects of several keys together do not count."
                )
            )
    head = ["trial", "state", metric, "best_epoch", "epochs", "seconds", *(parameter.key for parameter in parameters)]
    mark = complete[0] if complete else None
    body = [
        [
            trial["trial"],
            *(page.cell(page.text(_short(trial[key])), "best" if trial is mark else "") for key in head[1:]),
        ]
        for trial in trials[:MAX_TRIALS]
    ]
    parts += [page.heading("Results"), page.table("trials", head, body)]
    if len(trials) > MAX_TRIALS:
        parts.append(page.paragraph(f"The best {MAX_TRIALS} of {len(trials)} trials are shown; trials.csv has all."))
    return page.page(f"Sweep {folder.resolve().name}", parts), charts


def _short(text: str) -> str:
    """Returns a number with four digits, and other texts as they are."""
    try:
        return text if text.lstrip("-").isdigit() else f"{float(text):.4g}"
    except ValueError:
        return text
