"""The page on scaling and its plots. Requires matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib import ticker

from .. import page
from ..charts import TEXT, Chart, drawing, new_figure, series_color, standalone, svg_text
from .report import Point, Report, Stats
from .runs import PHASES
from .text import break_even_line, slices_line


def _series(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Returns the points of every variant, which begin with the single-rank point."""
    alone = [point for point in points if point.ranks == 1]
    names = list(dict.fromkeys(point.name for point in points if point.ranks > 1))
    several = {name: alone + [p for p in points if p.ranks > 1 and p.name == name] for name in names}
    return several or {"one rank": alone}


def _svg(draw: Callable[[Any], None], name: str, title: str) -> str:
    """Returns the SVG that `draw` makes on the axes that it is passed, with a legend above them. `name`: a name that no
    other plot of the page has."""
    with drawing():
        figure, axes = new_figure(1.45, 6.0)
        figure.suptitle(title, x=0.02, ha="left", fontsize=11)
        draw(axes)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncol=2, fontsize=9, frameon=False)
        return svg_text(figure, Chart(name, title, "", axes.get_ylabel()))


def _ticks(axes: Any, points: Sequence[Point]) -> None:
    ranks = sorted({point.ranks for point in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [str(count) for count in ranks])
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.set_xlabel("ranks")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"))


def _lines(
    points: Sequence[Point],
    name: str,
    title: str,
    unit: str,
    measured: Callable[[Point], Stats],
    predicted: Callable[[Point], float],
    ideal: Callable[[int], float],
) -> str:
    """Returns a plot of medians with their range, predictions (dashed) and the ideal (dotted) against ranks."""

    def draw(axes: Any) -> None:
        ranks = sorted({point.ranks for point in points})
        axes.plot(ranks, [ideal(count) for count in ranks], ":", color=TEXT, label="ideal")
        series = _series(points)
        for index, (variant, list_) in enumerate(series.items()):
            color = series_color(index)
            shift = 1.0 + 0.015 * (index - (len(series) - 1) / 2)  # so that bars of variants do not hide each other
            x = [point.ranks * (shift if point.ranks > 1 else 1.0) for point in list_]
            stats = [measured(point) for point in list_]
            spread = [[s.median - s.low for s in stats], [s.high - s.median for s in stats]]
            axes.errorbar(x, [s.median for s in stats], yerr=spread, fmt="o-", color=color, markersize=4, label=variant)
            known = [(at, predicted(point)) for at, point in zip(x, list_) if point.predicted]
            if known:
                axes.plot(*zip(*known), "--", color=color, alpha=0.7, label="predicted" if index == 0 else None)
        _ticks(axes, points)
        axes.set_ylabel(unit)

    return _svg(draw, name, title)


def _name_bars(axes: Any, points: Sequence[Point]) -> None:
    """Names each bar: by its number of ranks and its variant."""
    labels = [f"{point.variant}, {point.ranks}" if point.variant else f"{point.ranks}" for point in points]
    axes.set_xticks(range(len(points)), labels, rotation=90, fontsize="small")
    axes.set_xlabel("variant and ranks (one bar per line of the table)")


def _phases(points: Sequence[Point], name: str) -> str:
    """Returns stacked bars of the time of a step by phase, one bar per line of the table."""

    def draw(axes: Any) -> None:
        below = [0.0] * len(points)
        for index, phase in enumerate(PHASES):
            values = [1e3 * point.phase_seconds.get(phase, 0.0) for point in points]
            axes.bar(range(len(points)), values, bottom=below, color=series_color(index), label=phase)
            below = [a + b for a, b in zip(below, values)]
        _name_bars(axes, points)
        axes.set_ylabel("ms per step")

    return _svg(draw, name, "Time by phase")


def _sent(points: Sequence[Point], name: str) -> str:
    """Returns bars of the bytes that each rank sends in a step, and the bandwidth while ranks wait."""

    def draw(axes: Any) -> None:
        axes.bar(range(len(points)), [1e-6 * p.wire_bytes for p in points], color=series_color(0), label="MB per step (left)")
        _name_bars(axes, points)
        axes.set_ylabel("MB sent per step and rank")
        right = axes.twinx()
        right.plot(range(len(points)), [1e-9 * p.bus_rate for p in points], "o", color=series_color(1))
        axes.plot([], [], "o", color=series_color(1), label="bus GB/s (right)")
        right.set_ylabel("GB/s")
        right.set_ylim(0, 1.15e-9 * max(max(p.bus_rate for p in points), 1.0))
        right.grid(False)

    return _svg(draw, name, "Communication volume, and bus bandwidth while waiting")


def plots(points: Sequence[Point], mode: str) -> dict[str, str]:
    """Returns the plots of strong or weak scaling, the `mode`, as SVG for a page, by name."""
    one = next(point for point in points if point.ranks == 1).users_per_second.median

    def percent(s: Stats) -> Stats:
        return Stats(100.0 * s.median, 100.0 * s.low, 100.0 * s.high, s.repeats)

    def users_per_second(point: Point) -> float:
        return point.predicted.users_per_second if point.predicted else 0.0

    drawn = {
        "users": _lines(
            points,
            f"{mode}-users",
            "Users per second",
            "users/s",
            lambda p: p.users_per_second,
            users_per_second,
            lambda n: n * one,
        ),
        "efficiency": _lines(
            points,
            f"{mode}-efficiency",
            "Efficiency",
            "% of ideal",
            lambda p: percent(p.efficiency),
            lambda p: 100.0 * p.predicted_efficiency,
            lambda _: 100.0,
        ),
        "phases": _phases(points, f"{mode}-phases"),
    }
    sending = [point for point in points if point.ranks > 1 and point.wire_bytes > 0.0]
    return {**drawn, "sent": _sent(sending, f"{mode}-sent")} if sending else drawn


EXPLANATION = (
    "Efficiency is users/s divided by those of one rank times the number of ranks. Lines and tables show medians, bars the range "
    "of all runs, dashed lines predictions, dotted lines the ideal. Predictions are computed from single-rank steps and from "
    "measured GEMM, memory and all-reduce rates only."
)

HEAD = ["ranks", "batch", "variant", "users/s", "low", "high", "runs", "efficiency", "predicted", "error", "step ms"]
HEAD += [f"{phase} ms" for phase in PHASES] + ["MB per step", "bus GB/s", "flags"]


def _row(p: Point) -> list[str]:
    s = p.users_per_second
    cells = [f"{p.ranks}", f"{p.batch_size:,.0f}", p.name, f"{s.median:,.0f}", f"{s.low:,.0f}", f"{s.high:,.0f}"]
    cells += [f"{s.repeats}", f"{100.0 * p.efficiency.median:.1f} %"]
    cells += [f"{p.predicted.users_per_second:,.0f}", f"{100.0 * p.prediction_error:+.0f} %"] if p.predicted else ["–", "–"]
    cells += [f"{1e3 * p.step_seconds:,.2f}"] + [f"{1e3 * p.phase_seconds.get(phase, 0.0):,.2f}" for phase in PHASES]
    megabytes = 1e-6 * p.wire_bytes
    return cells + [f"{megabytes:,.{3 if 0 < megabytes < 1 else 1}f}", f"{1e-9 * p.bus_rate:.2f}" if p.bus_rate > 0.0 else "–", "; ".join(p.flags)]


def _section(report: Report, mode: str, points: Sequence[Point], drawn: dict[str, str]) -> list[str]:
    """Returns the parts of the page on strong or weak scaling, the `mode`."""
    is_strong = mode == "strong"
    users = f"{report.batch_size:,.0f}" if is_strong else f"{report.users_per_rank:,.0f}"
    rows = [[cells[0], *(page.cell(page.text(cell)) for cell in cells[1:])] for cells in map(_row, points)]
    return [
        page.heading(f"{mode.capitalize()} scaling"),
        page.paragraph(f"{users} users per step for {'any number of ranks' if is_strong else 'each rank'}."),
        page.grid(f"<figure>{svg}</figure>" for svg in drawn.values()),
        page.table(mode, HEAD, rows),
    ]


def to_html(report: Report, drawn: dict[str, dict[str, str]]) -> str:
    """Formats a report as an HTML page, which loads no other files. `drawn`: plots of `strong` and `weak`."""
    cost, link = report.cost, report.probed.within_host
    model = ""
    if cost.known:
        model += (
            f"A step of one rank: {1e3 * cost.fixed:.2f} ms + {1e3 * cost.per_user:.4f} ms per user + "
            f"{1e3 * cost.update_single_rank:.2f} ms for the update. "
        )
    if link.bandwidth > 0.0:
        model += f"Between ranks: {1e6 * link.latency:.1f} µs latency, {1e-9 * link.bandwidth:.2f} GB/s. "
    found = [break_even_line(report.break_even)] if report.break_even else []
    found += [slices_line(report.slices_win)] if report.slices_win else []
    model += " ".join(f"{line[0].upper()}{line[1:]}." for line in found)
    facts = [f"vaecf_dist {report.version}", report.device, report.precision, f"{report.threads} threads per rank"]
    facts += [f"up to {report.ranks_per_host} ranks per host", report.binding]
    parts = [page.paragraph(report.machine), page.paragraph(" · ".join(facts))]
    parts += map(page.warning, report.warnings)
    for mode, points in (("strong", report.strong), ("weak", report.weak)):
        parts += _section(report, mode, points, drawn[mode]) if points else []
    parts += [page.heading("The model behind the predictions"), page.paragraph(model), page.paragraph(EXPLANATION)]
    return page.page("vaecf_dist: scaling", parts)


def write_page(report: Report, folder: Path) -> None:
    """Writes scaling.html and each plot as scaling-MODE-NAME.svg."""
    drawn = {mode: plots(points, mode) for mode, points in (("strong", report.strong), ("weak", report.weak)) if points}
    for mode, pictures in drawn.items():
        for name, svg in pictures.items():
            (folder / f"scaling-{mode}-{name}.svg").write_text(standalone(svg), encoding="utf-8")
    (folder / "scaling.html").write_text(to_html(report, drawn), encoding="utf-8")
