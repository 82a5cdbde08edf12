"""Makes the page on one or several runs, which is self-contained HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pandas as pd

from . import page
from .charts import Chart, Series, draw_bars, draw_curves, draw_groups
from .commands.compare import PerUser
from .dataset import open_hdf5
from .errors import InputError
from .events import metric_names, smallest_is_best
from .phases import benchmark_phases, timeline_phases
from .run import Run, names_of, seed_groups
from .solutions_table import number, solutions_table
from .tested_runs import test_columns

# Charts and the functions that draw them, with or without a legend.
Charts = list[tuple[Chart, Callable[[bool], str]]]

LOSSES = {
    "loss": ("Loss", "mean per user"),
    "nll": ("Negative log-likelihood", "mean per user"),
    "kl": ("KL divergence", "mean per user"),
    "beta": ("Weight of KL", "beta"),
    "users_per_second": ("Training speed", "users per second"),
}
# Losses of different models have different scales.
OF_MODELS = ("loss", "nll", "kl")
GROUPS = 5


def _state(run: Run) -> str:
    end = run.last("end")
    return f"ended: {end.get('reason', '')}" if end else "at work, or interrupted"


def _summary(runs: Sequence[Run]) -> str:
    """Returns a table of the facts on each run."""

    def best(run: Run) -> str:
        end = run.last("end")
        value, metric = end.get("best_metric"), run.config.get("validation.select", "")
        place = f"in epoch {end.get('best_epoch')}" if "best_epoch" in end else f"by solution {end.get('best_solution')}"
        return "" if value is None else f"{metric} {value:.4f} {place}"

    def speed(run: Run) -> str:
        rates = run.epochs.get("users_per_second", pd.Series(dtype=float)).iloc[1:]
        return "" if rates.empty else f"{rates.median():,.0f} users/s (median)"

    facts: dict[str, Callable[[Run], object]] = {
        "state": _state,
        "model": lambda run: run.config.get("model.type", ""),
        "dataset": lambda run: run.config.get("data.file", ""),
        "train users": lambda run: run.start.get("users", ""),
        "items": lambda run: run.start.get("items", ""),
        "parameters": lambda run: run.start.get("parameters", ""),
        "epochs": lambda run: len(run.epochs) or "",
        "best on validation users": best,
        "training": speed,
        "seconds": lambda run: run.last("end").get("seconds", ""),
        "ranks": lambda run: run.start.get("ranks", ""),
        "threads per rank": lambda run: run.start.get("threads", ""),
        "device and precision": lambda run: f"{run.start.get('device', '')}, {run.start.get('precision', '')}",
        "hosts": lambda run: ", ".join(run.start.get("hosts", [])),
        "version": lambda run: run.start.get("version", ""),
        "started": lambda run: run.start.get("time", ""),
        "folder": lambda run: run.path,
    }
    rows = [[name, *(page.cell(page.text(number(fact(run))), "text") for run in runs)] for name, fact in facts.items()]
    return page.table("summary", ["", *names_of(runs)], rows)


def _with_error(value: float, error: float | None) -> str:
    """Returns a value with its standard error, which one user alone does not have; empty for nan."""
    if pd.isna(value):
        return ""
    return f"{value:.4f}" if error is None or pd.isna(error) else f"{value:.4f} <small>± {error:.4f}</small>"


def _test(runs: Sequence[Run]) -> str:
    """Returns the table of test results: a row per metric, a column per run and per baseline."""
    columns, metrics = test_columns(runs)
    if not columns:
        return page.paragraph("No run was tested yet; vaecf_dist CONFIG --test does so.")
    names = names_of(runs)
    order = [title for title in columns if title in names]
    others = [title for title in columns if title not in names]
    for indices in seed_groups(runs):
        seeds = [names[i] for i in indices if names[i] in order]
        if len(seeds) > 1:
            title = f"mean ± sd of {len(seeds)} seeds: {seeds[0]} ... {seeds[-1]}"
            common = [metric for metric in metrics if all(metric in columns[name] for name in seeds)]
            found = {metric: [columns[name][metric][0] for name in seeds] for metric in common}
            columns[title] = {metric: (mean(of_seeds), stdev(of_seeds)) for metric, of_seeds in found.items()}
            order.append(title)
    order += others
    tested = [run for run in runs if run.last("test")]
    alike = len({run.config.get("data.file") for run in tested}) == 1
    rows = []
    for metric in metrics:
        cells = [columns[title].get(metric) for title in order]
        best = (min if smallest_is_best(metric) else max)(value[0] for value in cells if value)
        row = [metric]
        for value in cells:
            kind = "best" if value and value[0] == best and alike else ""
            row.append(page.cell(_with_error(*value) if value else "", kind))
        rows.append(row)
    users = {run.last("test").get("users") for run in tested}
    count = " or ".join(str(number) for number in sorted(users, key=str))
    words = f"Means over {count} test users, with standard errors."
    if not alike:
        words += " No value is marked as the best one, because the runs have different datasets (data.file)."
    for name, run in zip(names, runs, strict=True):
        for baseline, reason in run.last("test").get("left_out", {}).items():
            words += f" {name} was tested without {baseline}: {reason}."
    return page.table("test", ["metric", *order], rows) + page.paragraph(words)


def _kind(run: Run) -> str:
    """Returns the name of the loss of a run."""
    model = str(run.config.get("model.type", ""))
    loss = run.config.get(f"model.{model}.loss")  # if it can be chosen
    return f"{model} {loss}" if loss else model


def _new_items(run: Run) -> pd.DataFrame:
    """Returns the metrics of new items on the validation users; the index is the epoch."""
    groups = run.groups
    wanted = [place[0] == "validation" and place[2:] == ("model", "new_items") for place in groups.index]
    if not any(wanted):
        return pd.DataFrame()
    return groups[wanted].droplevel(["event", "of", "group"])


def curves(runs: Sequence[Run]) -> Charts:
    """Returns a chart per loss, per metric of the validation users, and of the speed; one curve per run in each."""
    names = names_of(runs)

    def chart(
        column: str, title: str, label: str, tables: Sequence[pd.DataFrame], marked: bool, kind: str = ""
    ) -> Chart:
        series = []
        for i, (name, run, rows) in enumerate(zip(names, runs, tables, strict=True)):
            if column in rows and kind in ("", kinds[i]):
                x, y = rows.index.to_numpy(float), rows[column].to_numpy(float)
                best = run.last("end").get("best_epoch") if marked else None
                series.append(Series(name, x, y, mark=best, index=i))
        name = f"curve-{column.replace('@', '-at-')}{'-' * bool(kind)}{kind.replace(' ', '-')}"
        return Chart(name, f"{title}, {kind}" if kind else title, "epoch", label, series)

    kinds = [_kind(run) for run in runs]
    epochs = [run.epochs for run in runs]
    charts = []
    for column, titles in LOSSES.items():
        found = dict.fromkeys(kind for kind, rows in zip(kinds, epochs, strict=True) if column in rows)
        for kind in found if column in OF_MODELS and len(found) > 1 else [""]:
            charts.append(chart(column, *titles, epochs, False, kind))
    speed = charts.pop()
    metrics = dict.fromkeys(metric for run in runs for metric in metric_names(run.last("validation")))
    validations = [run.validation for run in runs]
    charts += [chart(metric, f"{metric} on validation users", metric, validations, True) for metric in metrics]
    new_items = [_new_items(run) for run in runs]
    for metric in metrics:
        made = chart(metric, f"{metric} of new items on validation users", metric, new_items, True)
        charts.append(Chart(f"{made.name}-new-items", made.title, made.x_label, made.y_label, made.series))
    return [(each, partial(draw_curves, each)) for each in [*charts, speed] if each.series]


def _phases(runs: Sequence[Run], timelines: dict[int, dict[str, float]]) -> tuple[Charts, str]:
    """Returns the time by phase: charts and tables of steps, from events `benchmark`, and of runs, from timelines."""
    names = names_of(runs)
    steps = {i: benchmark_phases(run.last("benchmark")) for i, run in enumerate(runs) if run.last("benchmark")}
    charts: Charts = []
    tables = []
    for name, title, unit, found in (
        ("step", "Phases of a training step", "milliseconds", steps),
        ("timeline", "Phases of the run (timeline)", "seconds per rank", timelines),
    ):
        if not found:
            continue
        labels = list(dict.fromkeys(label for phases in found.values() for label in phases))
        positions = np.arange(len(labels), dtype=float)
        series = [
            Series(names[i], positions, np.array([phases.get(label, 0.0) for label in labels]), index=i)
            for i, phases in found.items()
        ]
        chart = Chart(f"phases-{name}", title, unit, "", series)
        charts.append((chart, partial(draw_bars, chart, labels)))
        rows = [
            [label, *(page.cell(f"{phases.get(label, 0.0):,.3f}") for phases in found.values())] for label in labels
        ]
        tables.append(page.table(f"phases-{name}", [f"{title}, {unit}", *(names[i] for i in found)], rows))
    return charts, "\n".join(tables)


def group_means(values: pd.Series[Any], by: pd.Series[Any], edges: np.ndarray[Any, Any]) -> pd.DataFrame:
    """Returns mean, standard error and number of `values` in the ranges of `by` between `edges`; a range contains its
    upper edge, and the first one also its lower."""
    position = np.clip(np.searchsorted(edges, by.to_numpy(), side="left") - 1, 0, len(edges) - 2)
    groups = values.groupby(position)
    table = pd.DataFrame({"mean": groups.mean(), "se": groups.std() / np.sqrt(groups.count()), "users": groups.count()})
    return table.reindex(range(len(edges) - 1))


def _groups(runs: Sequence[Run], files: dict[int, PerUser]) -> tuple[Charts, str]:
    """Returns the quality by length of history and by popularity of the targets, from files of --per-user."""
    names = names_of(runs)
    charts: Charts = []
    tables = []
    first = next(iter(files.values()))
    owner = runs[next(iter(files))]
    select = str(owner.config.get("validation.select", ""))
    metric = select if all(select in file.table for file in files.values()) else first.metrics[0]
    for column, title, label in (
        ("history", "Quality by length of history", "items of the history"),
        ("target_popularity", "Quality by popularity of items", "mean number of train users of the targets"),
    ):
        pooled = np.concatenate([file.table[column].to_numpy(float) for file in files.values()])
        edges = np.unique(np.quantile(pooled, np.linspace(0, 1, GROUPS + 1)))
        if column == "history":
            edges = np.unique(np.floor(edges))
        if len(edges) < 2:
            continue
        bounds = [f"{edge:.0f}" if edge == int(edge) or edge >= 100 else f"{edge:.3g}" for edge in edges]
        start = [bounds[0], *(str(int(edge) + 1) for edge in edges[1:-1])] if column == "history" else bounds
        labels = [low if low == high else f"{low}-{high}" for low, high in zip(start, bounds[1:], strict=False)]
        series, means = [], {}
        sources = [(names[i], i, file, metric) for i, file in files.items() if metric in file.table]
        sources += [
            (group.replace("_", "-"), len(runs) + k, first, f"{group}/{metric}")
            for k, group in enumerate(group for group in first.groups if f"{group}/{metric}" in first.table)
        ]
        for name, index, file, values in sources:
            found = group_means(file.table[values], file.table[column], edges)
            means[name] = found
            positions = np.arange(len(labels), dtype=float)
            series.append(Series(name, positions, found["mean"].to_numpy(), found["se"].to_numpy(), index=index))
        chart = Chart(f"groups-{column.replace('_', '-')}", title, label, metric, series)
        charts.append((chart, partial(draw_groups, chart, labels)))
        rows = []
        for k, group in enumerate(labels):
            cells = (page.cell(_with_error(found["mean"][k], found["se"][k])) for found in means.values())
            counts = dict.fromkeys(means[names[i]]["users"].fillna(0)[k] for i in files if names[i] in means)
            rows.append([group, page.cell(" or ".join(f"{count:.0f}" for count in counts)), *cells])
        tables.append(page.table(f"groups-{column}", [f"{label}: {metric}", "users", *means], rows))
    legend = page.legend([(series.name, series.index) for series in charts[0][0].series]) if charts else ""
    return charts, legend + "\n" + "\n".join(tables)


def _configuration(runs: Sequence[Run]) -> str:
    """Returns the configuration of each run; of several runs, first the keys that differ."""
    keys = list(dict.fromkeys(key for run in runs for key in run.config))
    values = {key: [str(run.config.get(key, "")) for run in runs] for key in keys}

    def rows(shown: Sequence[str]) -> str:
        cells = [[key, *(page.cell(page.text(value), "text") for value in values[key])] for key in shown]
        return page.table("differences" if len(shown) < len(keys) else "configuration", ["key", *names_of(runs)], cells)

    different = [key for key in keys if len(set(values[key])) > 1]
    shown = rows(different) if len(runs) > 1 and 0 < len(different) < len(keys) else ""
    return shown + page.details(f"All {len(keys)} keys", rows(keys))


def _assign(runs: Sequence[Run], files: Sequence[PerUser]) -> tuple[dict[int, PerUser], list[Path]]:
    """Returns the file of --per-user of each run that has one, by the index of the run, and the files in the folders of
    the runs that are not of their best.h5. Throws InputError if one of `files` is not of a run's best.h5."""
    found: dict[int, PerUser] = {}
    others: list[Path] = []
    checksums = [run.checksum() for run in runs]
    for i, run in enumerate(runs):
        for path in sorted(run.path.glob("*.h5")):
            with open_hdf5(path) as file:
                is_per_user = "metrics" in file.attrs and "target_popularity" in file
            if not is_per_user:
                continue
            per_user = PerUser(path)
            if per_user.checkpoint_xxh3 and per_user.checkpoint_xxh3 == checksums[i]:
                found[i] = per_user
            else:
                others.append(path)
    for per_user in files:
        matches = [i for i, checksum in enumerate(checksums) if checksum and checksum == per_user.checkpoint_xxh3]
        if matches:
            found[matches[0]] = per_user
            continue
        if per_user.title in (run.path.resolve().name for run in runs):
            raise InputError(
                f"{per_user.path}: is not of best.h5 of the run {per_user.title}, but of another checkpoint "
                f"(step {per_user.step}); write it again with vaecf_dist CONFIG --test --per-user {per_user.path}"
            )
        raise InputError(f"{per_user.path}: is of the run {per_user.title}, which is not in this report")
    return dict(sorted(found.items())), [path for path in others if path not in (file.path for file in files)]


def runs_page(
    runs: Sequence[Run], per_user: Sequence[PerUser] = (), timelines: dict[int, str | Path] | None = None
) -> tuple[str, Charts]:
    """Returns the page on the runs, and its charts.

    `per_user`: files of --per-user of these runs, besides those in their folders. `timelines`: files of --timeline by the
    index of the run, besides timeline.json in their folders.
    """
    names = names_of(runs)
    files: dict[int, str | Path] = {
        i: run.path / "timeline.json" for i, run in enumerate(runs) if (run.path / "timeline.json").is_file()
    }
    files.update(timelines or {})
    shown = page.legend([(name, i) for i, name in enumerate(names)])
    title = f"Run {names[0]}" if len(runs) == 1 else f"{len(runs)} runs: {', '.join(names)}"
    parts = [page.heading("Summary"), _summary(runs), page.heading("Test"), _test(runs)]
    charts = curves(runs)
    if charts:
        words = "The point marks the best epoch. " if any(run.last("end") for run in runs) else ""
        if len({_kind(run) for run in runs if not run.epochs.empty}) > 1:
            words += "Losses of different models have different scales, so that each model has its own chart of them. "
        words += "Of curves with more than 2,000 epochs, the lowest and highest of each range are drawn."
        figures = [page.figure(chart.title, draw(False)) for chart, draw in charts]
        drawn = page.legend([(name, i) for i, name in enumerate(names) if not runs[i].epochs.empty])
        parts += [page.heading("Curves"), drawn, page.grid(figures), page.paragraph(words)]
    if any(not run.solutions.empty for run in runs):
        parts += [page.heading("Solutions"), solutions_table(runs)]
    found, tables = _phases(runs, {i: timeline_phases(file) for i, file in sorted(files.items())})
    if found:
        parts += [
            page.heading("Time by phase"),
            shown,
            page.grid([page.figure(c.title, draw(False)) for c, draw in found]),
            tables,
        ]
        charts += found
    users, others = _assign(runs, per_user)
    if users or others:
        parts.append(page.heading("Quality by users and items"))
    if users:
        found, tables = _groups(runs, users)
        figures = [page.figure(chart.title, draw(False)) for chart, draw in found]
        parts += [page.grid(figures), tables]
        charts += found
    parts += [page.paragraph(f"{path} is left out: it is not of the best.h5 of this run.") for path in others]
    parts += [page.heading("Configuration"), _configuration(runs)]
    return page.page(title, parts), charts
