"""Runs the examples in the docstrings of all public classes, methods and functions."""

import doctest
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import vaecf


def public_calls() -> Iterator[tuple[str, Any]]:
    """Yields the public classes, methods and functions with their names; errors are not called."""
    for name in vaecf.__all__:
        value = getattr(vaecf, name)
        if isinstance(value, type) and issubclass(value, Exception):
            continue
        yield name, value
        for method, function in vars(value).items() if isinstance(value, type) else ():
            if not method.startswith("_") and callable(function):
                yield f"{name}.{method}", function


def tables() -> dict[str, pd.DataFrame]:
    """Returns events of 60 users, most with items of one genre, and tables of the users and of 20 items."""
    lines = [
        (f"u{n}", item, 1 + n * k % 5, pd.Timestamp("2026-01-01") + pd.Timedelta(days=n % 7 + 10 * k))
        for n in range(60)
        for k, item in enumerate([*((2 * (n * 3 + step * (1 + n % 3)) + n) % 20 + 1 for step in range(7)), n % 20 + 1])
    ]
    items = [(item, f"Film {item}", ["drama", "comedy"][item % 2]) for item in range(1, 21)]
    users = [(f"u{n}", ["young", "old"][n % 2]) for n in range(60)]
    return {
        "events": pd.DataFrame(lines, columns=["user", "item", "plays", "time"]).drop_duplicates(["user", "item"]),
        "items": pd.DataFrame(items, columns=["item", "title", "genre"]),
        "users": pd.DataFrame(users, columns=["user", "age"]),
    }


@pytest.fixture(name="folder", scope="session")
def _folder(program: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the dataset data/own.h5 and two runs, and data/plays.h5 with interaction weights and features."""
    for needed in ("pyarrow", "narwhals"):
        if find_spec(needed) is None:
            pytest.skip(f"needs {needed}")
    folder = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("VAECF_PROGRAM", program)
        patch.setenv("OMP_NUM_THREADS", "1")
        of = tables()
        columns: dict[str, Any] = {"user": "user", "item": "item", "split": "random", "validation_users": 10, "test_users": 10}
        vaecf.prepare(of["events"], items=of["items"], title="title", file="data/own.h5", **columns)
        metrics = {"evaluation.metrics": ["ndcg@10", "recall@5"], "validation.select": "ndcg@10"}
        own: dict[str, Any] = {"progress": False, "settings": metrics}
        vaecf.train("data/own.h5", model="ease", name="dense", **own)
        vaecf.train("data/own.h5", model="elsa", name="vectors", epochs=2, **own)
        rules = {"data.prepare.interaction_weights": "log1p", "data.prepare.user_features": ["age"]}
        vaecf.prepare(of["events"], rating="plays", users=of["users"], file="data/plays.h5", settings=rules, **columns)
        vaecf.train("data/plays.h5", model="mult_vae", name="plays", epochs=1, **own)
    return folder


@pytest.mark.parametrize(("name", "value"), public_calls())
def test_examples_give_what_they_show(
    name: str, value: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    known = {"vaecf": vaecf, "np": np, "pd": pd, **tables()}
    example = doctest.DocTestParser().get_doctest(value.__doc__ or "", known, name, None, 0)
    assert example.examples, f"{name} has no example in its docstring"
    shown: list[str] = []
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=options).run(example, out=shown.append)
    assert not shown, "".join(shown)
