"""Plots of a report, and the HTML page that contains them. Requires matplotlib."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
# pylint: disable=wrong-import-position
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullLocator  # noqa: E402

from .report import Point, Report, Stats  # noqa: E402
from .runs import PHASES  # noqa: E402
from .text import break_even_line, slices_line  # noqa: E402

# Medium tones, which are readable on light and dark backgrounds.
INK = "#7a8794"
COLORS = ("#3b7dd8", "#d9652b", "#2f9e63", "#9c56bd", "#b8932a", "#2299aa", "#c94a70", "#7f8c8d")
STYLE = {
    "svg.fonttype": "none",  # text remains text
    "svg.hashsalt": "vaecf",  # equal reports give equal files
    "font.family": "sans-serif",
    "font.size": 10,
    **{key: INK for key in ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")},
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": INK,
    "grid.alpha": 0.25,
}


def _series(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Returns the points of every variant, which begin with the single-rank point."""
    alone = [point for point in points if point.ranks == 1]
    names = list(dict.fromkeys(point.name for point in points if point.ranks > 1))
    several = {name: alone + [p for p in points if p.ranks > 1 and p.name == name] for name in names}
    return several or {"one rank": alone}


def _svg(draw: Callable[[Any], None], title: str) -> str:
    """Returns the SVG that `draw` makes on the axes that it is passed. Text below them is the legend."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.0, 4.2))
        axes = figure.add_subplot()
        axes.set_title(title, loc="left", fontsize=11)
        draw(axes)
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            bottom = axes.get_tightbbox().transformed(figure.transFigure.inverted()).y0  # below the names of the bars
            figure.legend(handles, labels, loc="upper left", bbox_to_anchor=(0.1, min(0.0, bottom)), ncol=2, fontsize=9)
        out = io.StringIO()
        figure.savefig(out, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    # The page scales the picture; its label replaces the metadata, which refer to other sites.
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def _ticks(axes: Any, points: Sequence[Point]) -> None:
    ranks = sorted({point.ranks for point in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [str(count) for count in ranks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("ranks")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"))


def _lines(
    points: Sequence[Point],
    title: str,
    unit: str,
    measured: Callable[[Point], Stats],
    predicted: Callable[[Point], float],
    ideal: Callable[[int], float],
) -> str:
    """Returns a plot of medians with their range, predictions (dashed) and the ideal (dotted) against ranks."""

    def draw(axes: Any) -> None:
        ranks = sorted({point.ranks for point in points})
        axes.plot(ranks, [ideal(count) for count in ranks], ":", color=INK, label="ideal")
        series = _series(points)
        for index, (name, list_) in enumerate(series.items()):
            color = COLORS[index % len(COLORS)]
            shift = 1.0 + 0.015 * (index - (len(series) - 1) / 2)  # so that bars of variants do not hide each other
            x = [point.ranks * (shift if point.ranks > 1 else 1.0) for point in list_]
            stats = [measured(point) for point in list_]
            spread = [[s.median - s.low for s in stats], [s.high - s.median for s in stats]]
            axes.errorbar(x, [s.median for s in stats], yerr=spread, fmt="o-", color=color, markersize=4, label=name)
            known = [(at, predicted(point)) for at, point in zip(x, list_) if point.predicted]
            if known:
                axes.plot(*zip(*known), "--", color=color, alpha=0.7, label="predicted" if index == 0 else None)
        _ticks(axes, points)
        axes.set_ylabel(unit)

    return _svg(draw, title)


def _name_bars(axes: Any, points: Sequence[Point]) -> None:
    """Names each bar: by its number of ranks and its variant."""
    labels = [f"{point.variant}, {point.ranks}" if point.variant else f"{point.ranks}" for point in points]
    axes.set_xticks(range(len(points)), labels, rotation=90, fontsize="small")
    axes.set_xlabel("variant and ranks (one bar per line of the table)")


def _phases(points: Sequence[Point]) -> str:
    """Returns stacked bars of the time of a step by phase, one bar per line of the table."""

    def draw(axes: Any) -> None:
        below = [0.0] * len(points)
        for index, phase in enumerate(PHASES):
            values = [1e3 * point.phase_seconds.get(phase, 0.0) for point in points]
            axes.bar(range(len(points)), values, bottom=below, color=COLORS[index], label=phase)
            below = [a + b for a, b in zip(below, values)]
        _name_bars(axes, points)
        axes.set_ylabel("ms per step")

    return _svg(draw, "Time by phase")


def _sent(points: Sequence[Point]) -> str:
    """Returns bars of the bytes that each rank sends in a step, and the bandwidth while ranks wait."""

    def draw(axes: Any) -> None:
        axes.bar(range(len(points)), [1e-6 * p.wire_bytes for p in points], color=COLORS[7], label="MB per step (left)")
        _name_bars(axes, points)
        axes.set_ylabel("MB sent per step and rank")
        right = axes.twinx()
        right.plot(range(len(points)), [1e-9 * p.bus_rate for p in points], "o", color=COLORS[1])
        axes.plot([], [], "o", color=COLORS[1], label="bus GB/s (right)")
        right.set_ylabel("GB/s")
        right.set_ylim(0, 1.15e-9 * max(max(p.bus_rate for p in points), 1.0))
        right.grid(False)

    return _svg(draw, "Communication volume, and bus bandwidth while waiting")


def plots(points: Sequence[Point]) -> dict[str, str]:
    """Returns the plots of strong or weak scaling as SVG, by name."""
    one = next(point for point in points if point.ranks == 1).users_per_second.median

    def percent(s: Stats) -> Stats:
        return Stats(100.0 * s.median, 100.0 * s.low, 100.0 * s.high, s.repeats)

    def users_per_second(point: Point) -> float:
        return point.predicted.users_per_second if point.predicted else 0.0

    drawn = {
        "users": _lines(
            points, "Users per second", "users/s", lambda p: p.users_per_second, users_per_second, lambda n: n * one
        ),
        "efficiency": _lines(
            points,
            "Efficiency",
            "% of ideal",
            lambda p: percent(p.efficiency),
            lambda p: 100.0 * p.predicted_efficiency,
            lambda _: 100.0,
        ),
        "phases": _phases(points),
    }
    sending = [point for point in points if point.ranks > 1 and point.wire_bytes > 0.0]
    return {**drawn, "sent": _sent(sending)} if sending else drawn


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


def _table(points: Sequence[Point]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(_row(point), "td") for point in points)
    return f'<div class="scroll"><table><thead>{line(HEAD, "th")}</thead><tbody>{body}</tbody></table></div>'


CSS = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5d6b7c; --line: #d5dce4; --paper: #fff; --card: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ef; --soft: #9aa7b5; --line: #3a4450; --paper: #14181d; --card: #1c2229; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 1180px; padding: 16px; }
.soft { color: var(--soft); }
.warning { border-left: 4px solid #d9652b; background: var(--card); padding: 8px 12px; margin: 8px 0; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 16px; }
figure { margin: 0; background: var(--card); border-radius: 8px; padding: 12px; }
svg { display: block; width: 100%; height: auto; }
.scroll { overflow-x: auto; margin-top: 12px; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:nth-child(3), td:nth-child(3) { text-align: left; } th { color: var(--soft); }
"""


def _section(title: str, text: str, points: Sequence[Point], drawn: dict[str, str]) -> str:
    figures = "".join(f"<figure>{_unique_ids(svg, f'{title}-{name}')}</figure>" for name, svg in drawn.items())
    return f'<h2>{title}</h2><p class="soft">{text}</p><div class="plots">{figures}</div>{_table(points)}'


def _unique_ids(svg: str, name: str) -> str:
    """Returns the SVG with ids that no other one of the page has."""
    prefix = re.sub(r"\W+", "-", name.lower())
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    return re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)


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
    sections = ""
    if report.strong:
        text = f"{report.batch_size:,.0f} users per step for any number of ranks."
        sections += _section("Strong scaling", text, report.strong, drawn["strong"])
    if report.weak:
        text = f"{report.users_per_rank:,.0f} users per step for each rank."
        sections += _section("Weak scaling", text, report.weak, drawn["weak"])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>vaecf_dist: scaling</title>\n'
        f"<style>{CSS}</style>\n</head>\n<body>\n<h1>Scaling</h1>\n<p>{escape(report.machine)}</p>\n"
        f'<p class="soft">{escape(" · ".join(facts))}</p>\n'
        + "".join(f'<div class="warning">{escape(warning)}</div>\n' for warning in report.warnings)
        + sections
        + f"\n<h2>The model behind the predictions</h2>\n<p>{escape(model)}</p>\n"
        '<p class="soft">Efficiency is users/s divided by those of one rank times the number of ranks. Lines and tables show '
        "medians, bars the range of all runs, dashed lines predictions, dotted lines the ideal. Predictions are computed from "
        "single-rank steps and from measured GEMM, memory and all-reduce rates only.</p>\n</body>\n</html>\n"
    )


def write_page(report: Report, folder: Path) -> None:
    """Writes scaling.html and each plot as scaling-MODE-NAME.svg."""
    drawn = {mode: plots(points) for mode, points in (("strong", report.strong), ("weak", report.weak)) if points}
    for mode, pictures in drawn.items():
        for name, svg in pictures.items():
            (folder / f"scaling-{mode}-{name}.svg").write_text(svg, encoding="utf-8")
    (folder / "scaling.html").write_text(to_html(report, drawn), encoding="utf-8")
