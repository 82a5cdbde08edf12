"""Writes a report on one or several runs, or on a sweep, as one self-contained HTML page."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import errors, page
from ..charts import standalone
from ..errors import InputError
from ..run import Run
from ..runs_page import Charts, runs_page
from ..sweep_page import is_sweep, sweep_page
from .compare import PerUser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `vaecf report`."""
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="the folder of a run, several of which are shown beside each other, or of one sweep"
    )
    parser.add_argument("-o", "--output", default="report.html", metavar="FILE", help="the page (default: report.html)")
    parser.add_argument(
        "--per-user",
        action="append",
        default=[],
        metavar="FILE.h5",
        help="a file of vaecf_dist --test --per-user of one of the runs; one in the folder of a run is found",
    )
    parser.add_argument(
        "--timeline",
        action="append",
        default=[],
        metavar="[RUN=]FILE",
        help="a file of vaecf_dist --timeline, of the first run or of RUN; timeline.json in the folder of a run is found",
    )
    parser.add_argument("--plots", metavar="FOLDER", help="also write each chart as an SVG file to this folder")


def run(options: argparse.Namespace) -> int:
    """Writes the page."""
    if any(is_sweep(path) for path in options.runs):
        if len(options.runs) > 1:
            raise InputError("a report is on runs or on one sweep; pass the folder of the sweep alone")
        return _write(options, *sweep_page(options.runs[0]), "1 sweep")
    runs = [Run(path) for path in options.runs]
    timelines: dict[int, str | Path] = {}
    for option in options.timeline:
        name, equals, file = option.partition("=")
        known = [i for i, path in enumerate(options.runs) if equals and name in (path, runs[i].name)]
        if equals and not known and not Path(option).is_file():
            raise InputError(f"--timeline {option}: {name} is not one of the runs; use RUN=FILE")
        timelines[known[0] if known else 0] = file if known else option
    text, charts = runs_page(runs, [PerUser(file) for file in options.per_user], timelines)
    return _write(options, text, charts, f"{len(runs)} run{'s' * (len(runs) > 1)}")


def _write(options: argparse.Namespace, text: str, charts: Charts, shown: str) -> int:
    """Writes a page and its charts."""
    page.write_text(options.output, text)
    if options.plots:
        try:
            Path(options.plots).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--plots {options.plots}: {error.strerror}") from None
        for chart, draw in charts:
            svg = standalone(draw(len(chart.series) > 1))
            page.write_text(Path(options.plots) / f"{chart.name}.svg", svg)
    print(f"wrote {options.output}: {shown}, {len(charts)} charts")
    return errors.DONE
