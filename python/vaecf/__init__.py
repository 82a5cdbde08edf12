"""Reads what vaecf_dist writes, starts it, and reports on its runs.

The examples in docstrings have DataFrames `events` (user, item, plays, time), `items` (item, title, genre) and `users`
(user, age), the dataset data/own.h5 of them, and its runs runs/dense and runs/vectors. data/plays.h5 and
runs/plays have interaction weights and features of users, too.
"""

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import Error, InputError, RunError, Stopped, install

if TYPE_CHECKING:
    from .dataset import Dataset, HeldOut, ItemMatrix
    from .evaluation import evaluate
    from .model import Model
    from .preparation import prepare
    from .results import Report, compare, leaderboard, report
    from .run import Run
    from .searching import Sweep, sweep
    from .texts import escaped
    from .training import train

__version__ = "1.0.0"

# A wheel of vaecf_dist may be installed without what its Python package needs. The reports of scaling experiments work
# without matplotlib.
_missing = [name for name in ("numpy", "scipy", "pandas", "h5py", "yaml") if find_spec(name) is None]
if _missing:
    _message = f"vaecf requires {', '.join(_missing)}; install them with: {install('python')}"
    # The script `vaecf` and `python3 -m vaecf` import this module before they can catch an exception.
    if Path(sys.argv[0]).name in ("vaecf", "-m"):
        print(_message, file=sys.stderr)
        sys.exit(2)
    raise ImportError(_message)

# The module of each name that is imported at its first use, so that `import vaecf` is fast. No module of the package
# may have the name of a function, because importing it would replace the function.
_MODULES = {
    "Dataset": "dataset",
    "HeldOut": "dataset",
    "ItemMatrix": "dataset",
    "Model": "model",
    "Report": "results",
    "Run": "run",
    "Sweep": "searching",
    "compare": "results",
    "escaped": "texts",
    "evaluate": "evaluation",
    "leaderboard": "results",
    "prepare": "preparation",
    "report": "results",
    "sweep": "searching",
    "train": "training",
}

__all__ = [
    "Dataset",
    "Error",
    "HeldOut",
    "InputError",
    "ItemMatrix",
    "Model",
    "Report",
    "Run",
    "RunError",
    "Stopped",
    "Sweep",
    "compare",
    "escaped",
    "evaluate",
    "leaderboard",
    "prepare",
    "report",
    "sweep",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
