"""Results of several runs beside each other: their tests, their differences, and a page on them."""

from __future__ import annotations

import html
import sys
import tempfile
import webbrowser
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from .commands.compare import PerUser
from .commands.compare import compare as compare_files
from .errors import InputError
from .events import smallest_is_best
from .run import Run, names_of
from .tested_runs import GROUPS, test_rows
from .texts import escaped

def as_runs(runs: Run | str | Path | Iterable[Run | str | Path]) -> list[Run]:
    """Returns runs, also of one run or of folders."""
    listed = [runs] if isinstance(runs, (Run, str, Path)) else list(runs)
    if not listed:
        raise InputError("runs must be at least one run, got none")
    return [run if isinstance(run, Run) else Run(run) for run in listed]


def leaderboard(runs: Run | str | Path | Iterable[Run | str | Path], sort: str | None = None) -> pd.DataFrame:
    """Returns the results of the tests: a row per run and baseline, by dataset and model, the best of each dataset first.

    The columns are group (all, head, tail or new_items), metric, and value or se, the standard error over users; of new items
    also random, the expectation of a random order. `runs`: runs or their folders; runs on one dataset share its baselines.
    `sort`: the metric of all items that orders the rows; default: the first one. Throws InputError if no run was tested.

    >>> table = vaecf.leaderboard(["runs/dense", "runs/vectors"])
    >>> table["all"].columns.tolist()
    [('ndcg@10', 'value'), ('ndcg@10', 'se'), ('recall@5', 'value'), ('recall@5', 'se')]
    >>> bool(table.loc[("own", "dense"), ("all", "ndcg@10", "value")] > table.loc[("own", "popularity"), ("all", "ndcg@10", "value")])
    True
    """
    listed = as_runs(runs)
    rows = test_rows(listed)
    if not rows:
        raise InputError(f"{listed[0].path}: was not tested; vaecf_dist {listed[0].path}/config.yaml --test does so")
    groups = ["all", *GROUPS]
    columns = sorted(dict.fromkeys(key for values in rows.values() for key in values), key=lambda key: groups.index(key[0]))
    metrics = list(dict.fromkeys(metric for group, metric, _ in columns if group == "all"))
    sort = metrics[0] if sort is None else sort
    if sort not in metrics:
        raise InputError(f"sort={sort!r} is not a metric of these runs, which are {', '.join(metrics)}")
    table = pd.DataFrame(
        [[values.get(key) for key in columns] for values in rows.values()],
        pd.MultiIndex.from_tuples(list(rows), names=["dataset", "model"]),
        pd.MultiIndex.from_tuples(columns, names=["group", "metric", None]),
        dtype=float,
    )
    ordered = table.sort_values([("all", sort, "value")], ascending=smallest_is_best(sort), kind="stable")
    datasets = list(dict.fromkeys(dataset for dataset, _ in rows))
    return ordered.sort_index(level="dataset", sort_remaining=False, key=lambda names: names.map(datasets.index), kind="stable")


def compare(
    reference: Run | str | Path, *others: Run | str | Path, samples: int = 2000, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """Returns the paired differences of other runs to the reference, from per-user.h5 in their folders: a row per run and
    metric, with the columns that docs/PYTHON_REFERENCE.md explains.

    Throws InputError if the runs are of different datasets, or a file does not exist or is of another checkpoint.

    >>> table = vaecf.compare("runs/dense", "runs/vectors")
    >>> bool(table.loc[("vectors", "ndcg@10"), "difference"] < 0)
    True
    """
    runs = as_runs([reference, *others])
    if len(runs) < 2:
        raise InputError("a comparison needs at least two runs, got one")
    files = [_per_user(run) for run in runs]
    table = compare_files(files[0], files[1:], samples, level, seed)
    names = dict(zip((str(file.path) for file in files), names_of(runs), strict=True))
    return table.rename(index=names, level="file").rename_axis(index={"file": "run"})


def _per_user(run: Run) -> PerUser:
    """Returns the metrics of each test user of a run."""
    found = PerUser(run.path)
    if found.checkpoint_xxh3 != run.checksum():
        raise InputError(
            f"{found.path}: is not of best.h5 of this run, but of another checkpoint; "
            f"write it again with: {PerUser.command(run.path)}"
        )
    return found


class Report:
    """A page on runs, which loads nothing and contains no script.

    >>> vaecf.report("runs/vectors")
    Report: show() shows it, save(file) writes it
    """

    def __init__(self, text: str) -> None:
        self.html = text
        """The text of the page."""

    def __repr__(self) -> str:
        return "Report: show() shows it, save(file) writes it"

    def save(self, file: str | Path) -> None:
        """Writes the page. Throws InputError if that is not possible.

        >>> vaecf.report("runs/vectors").save("report.html")
        """
        from .page import write_text  # with Matplotlib  # pylint: disable=import-outside-toplevel

        write_text(file, self.html)

    def _repr_html_(self) -> str:
        """Returns the page in a frame, for notebooks."""
        style = "width:100%;height:80vh;border:0"
        page = html.escape(escaped(self.html))
        return f'<div><iframe title="report" style="{style}" srcdoc="{page}"></iframe></div>'

    def show(self) -> None:
        """Shows the page: in a notebook below the cell, elsewhere in a browser.

        >>> vaecf.report("runs/vectors").show()                # doctest: +SKIP
        """
        if "ipykernel" in sys.modules:
            from IPython.display import display  # pylint: disable=import-outside-toplevel

            display(self)
            return
        with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="vaecf-", delete=False) as file:
            pass
        self.save(file.name)
        if not webbrowser.open(Path(file.name).as_uri()):
            print(f"no browser was found; the page is {file.name}")


def report(runs: Run | str | Path | Iterable[Run | str | Path]) -> Report:
    """Returns a page on runs beside each other, or on the folder of a sweep, as `vaecf report` writes it.

    Throws InputError if one is not a run.

    >>> vaecf.report(["runs/dense", "runs/vectors"]).html[:15]
    '<!DOCTYPE html>'
    """
    from .runs_page import runs_page  # with Matplotlib  # pylint: disable=import-outside-toplevel
    from .sweep_page import is_sweep, sweep_page  # pylint: disable=import-outside-toplevel

    if isinstance(runs, (str, Path)) and is_sweep(runs):
        return Report(sweep_page(runs)[0])
    return Report(runs_page(as_runs(runs))[0])
