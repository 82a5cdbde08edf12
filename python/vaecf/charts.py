"""Draws charts with matplotlib as SVG whose colors follow the page, also in dark mode."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

Array = np.ndarray[Any, Any]

MAX_POINTS = 2000
# Colors of series in light and in dark mode, and stand-ins that matplotlib writes and svg_text replaces.
LIGHT = ("#2563eb", "#c2410c", "#047857", "#b91c1c", "#7c3aed", "#0e7490", "#a16207", "#be185d")
DARK = ("#7aa7ff", "#ff9d5c", "#4ade9f", "#ff8a8a", "#c4a6ff", "#5cd6ee", "#e6c24a", "#ff8ac0")
_STAND_INS = {f"#0102{10 + i:02x}": f"var(--series-{i})" for i in range(len(LIGHT))}
TEXT, _GRID = "#010203", "#010204"
_COLORS = {TEXT: "currentColor", _GRID: "var(--grid)", **_STAND_INS}
_LINES = ("-", "--", ":", "-.")

VARIABLES = (
    ":root{--grid:#d6dae1;"
    + "".join(f"--series-{i}:{color};" for i, color in enumerate(LIGHT))
    + "}@media (prefers-color-scheme:dark){:root{--grid:#3b4250;"
    + "".join(f"--series-{i}:{color};" for i, color in enumerate(DARK))
    + "}}"
)


@dataclass(frozen=True)
class Series:
    """A curve or a row of bars."""

    name: str
    x: Array
    y: Array
    error: Array | None = None
    """Standard errors of y."""
    mark: float | None = None
    """The x of a point to be marked."""
    index: int = 0
    """The number of the color."""


@dataclass(frozen=True)
class Chart:
    """One picture: its name in files, its title, the labels of its axes, and its series."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: list[Series] = field(default_factory=list)


@dataclass(frozen=True)
class Axis:
    """An axis of parallel coordinates: its label, the position of each line on it, from 0 to 1, and its ticks."""

    label: str
    positions: Array
    ticks: list[tuple[float, str]]


def color(index: int) -> str:
    """Returns the CSS color of a series."""
    return f"var(--series-{index % len(LIGHT)})"


def thin(x: Array, y: Array, limit: int = MAX_POINTS) -> tuple[Array, Array]:
    """Returns at most `limit` points of a curve: of each of limit / 2 ranges of points the lowest and the highest."""
    finite = np.isfinite(y)
    x, y = x[finite], y[finite]
    if len(x) <= limit:
        return x, y
    kept = []
    for part in np.array_split(np.arange(len(x)), limit // 2):
        kept += sorted({int(part[y[part].argmin()]), int(part[y[part].argmax()])})
    return x[kept], y[kept]


def new_figure(rows: float = 1.0, width: float = 5.0) -> tuple[Figure, Any]:
    """Returns a figure, by default of the width of a phone, and its axes."""
    figure = Figure(figsize=(width, 2.9 * rows), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    axes.grid(color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def drawing() -> Any:
    """Returns the settings of matplotlib for all charts."""
    names = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    return matplotlib.rc_context(
        {
            **dict.fromkeys(names, TEXT),
            "svg.fonttype": "none",
            "svg.hashsalt": "vaecf",
            "font.family": "sans-serif",
            "font.size": 10,
            "savefig.transparent": True,
            "axes.facecolor": "none",
            "figure.facecolor": "none",
        }
    )


def series_color(index: int) -> str:
    """Returns the color of a series within `drawing`, which svg_text() replaces by that of the page."""
    return list(_STAND_INS)[index % len(_STAND_INS)]


def draw_curves(chart: Chart, legend: bool) -> str:
    """Returns the curves of a chart as SVG."""
    with drawing():
        figure, axes = new_figure()
        for series in chart.series:
            x, y = thin(series.x, series.y)
            style = _LINES[series.index // len(LIGHT) % len(_LINES)]
            points = "o" if len(x) == 1 else ""
            hue = series_color(series.index)
            axes.plot(x, y, style, color=hue, linewidth=1.6, marker=points, markersize=4, label=series.name)
            if series.mark is not None and series.mark in series.x:
                at = int(np.flatnonzero(series.x == series.mark)[0])
                axes.plot(series.x[at], series.y[at], "o", color=hue, markersize=6, label="_")
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
        if legend:
            axes.legend(frameon=False)
        return svg_text(figure, chart)


def draw_groups(chart: Chart, labels: Sequence[str], legend: bool) -> str:
    """Returns the means of each series in groups named `labels`, with standard errors, as SVG."""
    with drawing():
        figure, axes = new_figure()
        for k, series in enumerate(chart.series):
            shift = 0.08 * (k - (len(chart.series) - 1) / 2)
            hue = series_color(series.index)
            style = {"color": hue, "marker": "o", "markersize": 4, "linewidth": 1.4, "label": series.name}
            axes.errorbar(series.x + shift, series.y, series.error, **style)
        axes.set_xticks(range(len(labels)), labels, fontsize=8 if len(labels) > 4 else 10)
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)
        if legend:
            axes.legend(frameon=False)
        return svg_text(figure, chart)


def draw_bars(chart: Chart, labels: Sequence[str], legend: bool) -> str:
    """Returns horizontal bars, for each label one of each series, as SVG."""
    with drawing():
        figure, axes = new_figure(max(1.0, 0.12 * len(labels) * len(chart.series)))
        height = 0.8 / len(chart.series)
        for k, series in enumerate(chart.series):
            axes.barh(
                np.arange(len(labels)) + (k + 0.5) * height - 0.4,
                series.y,
                height,
                color=series_color(series.index),
                label=series.name,
            )
        axes.set_yticks(range(len(labels)), labels)
        axes.invert_yaxis()
        axes.set_xlabel(chart.x_label)
        if legend:
            axes.legend(frameon=False)
        return svg_text(figure, chart)


def draw_parallel(chart: Chart, axes: Sequence[Axis], best: int, _: bool) -> str:
    """Returns parallel coordinates as SVG. Lines are sorted, the best one first; the first `best` are colored."""
    with drawing():
        figure, area = new_figure(1.2, max(5.0, 1.4 * len(axes)))
        area.axis("off")
        area.set(xlim=(-0.4, len(axes) - 0.5), ylim=(-0.05, 1.5))
        lines = np.stack([axis.positions for axis in axes], axis=1)
        for k in reversed(range(len(lines))):
            style = {"color": _GRID if k >= best else series_color(1 if k == 0 else 0), "linewidth": 2.4 if k == 0 else 1.0}
            area.plot(lines[k], "-", **style)
        for place, axis in enumerate(axes):
            area.plot([place, place], [0, 1], "-", color=TEXT, linewidth=0.8)
            # Long names in two lines, and every second axis lower, so that they do not overlap.
            words = axis.label.replace(".", ".\n", 1) if len(axis.label) > 14 else axis.label
            area.text(place, 1.08 + 0.16 * (place % 2), words, ha="center", va="bottom", fontsize=8, in_layout=False)
            for height, tick in axis.ticks:
                area.plot([place - 0.02, place + 0.02], [height, height], "-", color=TEXT, linewidth=0.8)
                area.text(place + 0.04, height, tick, va="center", fontsize=8, in_layout=False)
        return svg_text(figure, chart)


def svg_text(figure: Figure, chart: Chart) -> str:
    """Returns a figure as an element <svg> for a page: without metadata, with ids that are unique on the page, with two
    decimals, with the colors of the page, and as wide as its container."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = _head(text, chart)
    text = text.replace("xlink:href", "href")
    text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{chart.name}-", text)
    text = re.sub(r' (?:d|x|y|transform)="[^"]*"', _rounded, text)
    for stand_in, name in _COLORS.items():
        text = text.replace(stand_in, name)
    return re.sub(r"\n\s*", "\n", text).strip()


def _rounded(attribute: re.Match[str]) -> str:
    """Returns an attribute with coordinates of at most two decimals."""
    return re.sub(r"(\d+\.\d\d)\d+", r"\1", attribute.group())


def _head(text: str, chart: Chart) -> str:
    """Replaces the attributes of <svg> but the size of its coordinates."""
    box = re.search(r'viewBox="[^"]*"', text)
    label = f"{chart.title}: {chart.y_label or chart.x_label}".replace("&", "and").replace('"', "'").replace("<", "")
    return re.sub(r"<svg[^>]*>", f'<svg {box.group() if box else ""} role="img" aria-label="{label}">', text, count=1)


def standalone(svg: str) -> str:
    """Returns an element of svg_text as an SVG file, which also follows dark mode."""
    style = f"<style>{VARIABLES}svg{{color:#1b2330}}@media (prefers-color-scheme:dark){{svg{{color:#e4e8ef}}}}</style>"
    text = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return text.replace(">", f">{style}", 1) + "\n"
