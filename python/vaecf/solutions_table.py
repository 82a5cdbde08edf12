"""The table of the solutions of models that are solved at once, for the page on runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from . import page
from .run import Run, names_of

# Values of searched parameters at which a range ends by itself, so that there is nothing to try beyond them: the inclusive
# limits in the schema of configurations. A page is made from run folders alone, which do not contain them.
LIMITS = {"user_power": (0, 2), "dropout": (0,), "relax": (0, 1), "kept_weight": (0,), "feature_weight": (0,), "power": (0, 1)}


def number(value: Any) -> str:
    """Returns a number with separators, and with four digits if it is not an integer; other values as text."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if isinstance(value, float) else str(value)


def at_edge(key: str, value: float, tried: Sequence[float]) -> str:
    """Returns smallest or largest if the chosen value of a parameter is at an end of the values that were tried, and
    others can be tried beyond it; else an empty text."""
    name = key.rpartition(".")[2].removeprefix("low_rank_")
    if value in LIMITS.get(name, ()) or len(set(tried)) < 2:
        return ""
    return "smallest" if value == min(tried) else "largest" if value == max(tried) else ""


def solutions_table(runs: Sequence[Run]) -> str:
    """Returns the table of the solutions of runs, in which the chosen one of each run is marked."""
    solutions = pd.concat([run.solutions.assign(run=name) for name, run in zip(names_of(runs), runs, strict=True)])
    head = [str(key) for key in solutions if key not in ("run", "time", "users", "users_without_target")]
    parameters = list(dict.fromkeys(key for run in runs for key in run.last("solve").get("settings", {})))
    head = [*parameters, *(key for key in head if key not in parameters)]
    rows, words = [], ""
    for name, run in zip(names_of(runs), runs, strict=True):
        chosen = run.last("end").get("best_solution")
        for number_of, solution in run.solutions.reindex(columns=head).iterrows():
            best = len(run.solutions) > 1 and number_of == chosen
            values = {key: value if isinstance(value, str) else float(value) for key, value in solution.items()}
            rows.append([name, *(page.cell(number(values[key]), "best" if best else "") for key in head)])
            for key in [key for key in parameters if best and not isinstance(values[key], str)]:
                end = at_edge(key, float(solution[key]), [float(value) for value in run.solutions.get(key, [])])
                if end:
                    words += f"The chosen {key} of {name}, {solution[key]:g}, is the {end} of its list; "
                    words += f"try {end.removesuffix('est')}er values. "
    return page.table("solutions", ["run", *head], rows) + (page.paragraph(words) if words else "")
