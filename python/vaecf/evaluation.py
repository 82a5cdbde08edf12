"""Judges the lists of any recommender, and of models on other datasets, with `vaecf_dist evaluate`."""

from __future__ import annotations

import json
import os
import re
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .dataset import Dataset
from .errors import InputError, RunError
from .ids import column_names, column_of, id_text
from .model import Model
from .program import checked_program, resolved_config, run_program
from .run import Run
from .tested_runs import values_of
from .texts import local_path

ORDER = ("rank", "score", "prediction")
"""The columns by which the program sorts a user's items."""

NOTED = {
    "users_without_list": "have no list and count 0",
    "unknown_items": "places have items that the dataset does not have, and count as misses",
    "unknown_users": "users of the lists are not in the split, and are left out",
}
"""What is warned of, by the field of the program."""


def evaluate(
    data: Dataset | str | Path,
    lists: Any,
    metrics: str | Sequence[str] | None = None,
    *,
    split: str = "test",
    user: str | int = "user",
    item: str | int = "item",
    per_user: str | Path | None = None,
    program: str | Path | None = None,
) -> pd.DataFrame:
    """Returns the metrics of recommendations for the held-out users of a dataset, with their standard errors: a row per
    metric, and the columns value and se.

    `lists`: a DataFrame of pandas, Polars or PyArrow with a line per recommendation, whose columns `user` and `item` have the
    ids of the source; a user's items are sorted by a column rank, else score or prediction, if there is one. Or the path of a
    file that `vaecf_dist evaluate` reads. Or a Model or Run, also of an older dataset: its lists for the fold-in items that it
    has, of the items that have train users in both. `metrics`: as ndcg@10; by default those of evaluation.metrics. `split`:
    test or validation. `per_user`: a file to write with the metrics of each user, for `vaecf compare`.

    docs/METRICS.md has the rules. What was counted is in the attribute attrs of the table; a warning states what is left out.
    Throws InputError for wrong arguments, columns or lists.

    >>> data, model = vaecf.Dataset("data/own.h5"), vaecf.Run("runs/dense").model()
    >>> vaecf.evaluate(data, model, ["ndcg@10", "coverage@10"]).index.tolist()
    ['ndcg@10', 'coverage@10', 'head/ndcg@10', 'tail/ndcg@10']
    >>> lists = model.recommend(data.test.fold_in, users=data.test.user_id, k=5)
    >>> bool(vaecf.evaluate(data, lists, "recall@5").loc["recall@5", "value"] > 0.9)
    True
    """
    if split not in ("validation", "test"):
        raise InputError(f"split= must be test or validation, got {split!r}")
    data = data if isinstance(data, Dataset) else Dataset(data)
    data.require_unchanged()
    found = checked_program(program)
    names = resolved_config(found, os.devnull)["evaluation.metrics"] if metrics is None else metrics
    names = [names] if isinstance(names, str) else list(names)
    with tempfile.TemporaryDirectory() as temporary:
        if isinstance(lists, (str, Path)):
            file = local_path(lists)
        else:
            model = lists.model() if isinstance(lists, Run) else lists
            is_model = isinstance(model, Model)
            # The name of the file is that of the model in the file of each user's metrics.
            file = Path(temporary) / f"{model.type if is_model else 'lists'}.csv"
            table = _lists_of_model(model, data, split, names) if is_model else _lists_of_table(lists, user, item)
            table.to_csv(file, index=False, errors="surrogateescape")
        command = ["evaluate", str(data.path), "--lists", str(file), "--split", split, "--metrics", ",".join(names), "--json", "-q"]
        command += ["--per-user", str(local_path(per_user))] if per_user is not None else []
        try:
            text, _ = run_program(command, program=found)
        except (InputError, RunError) as error:
            said = str(error) if isinstance(lists, (str, Path)) else str(error).replace(str(file), "lists")
            raise type(error)(re.sub("--(lists|metrics|per-user)(: )?", lambda at: at[1].replace("-", "_") + ("= " if at[2] else "="), said)) from None
    result = json.loads(text)
    for field, what in NOTED.items():
        if result[field] > 0:
            warnings.warn(f"lists: {result[field]} {'users ' if field == 'users_without_list' else ''}{what}", stacklevel=2)
    values = values_of(result)
    rows = pd.DataFrame(list(values.values()), pd.Index(list(values), name="metric"), ["value", "se"], dtype=float)
    rows.attrs = {field: value for field, value in result.items() if field not in ("metrics", "groups")}
    return rows


def _lists_of_table(table: Any, user: str | int, item: str | int) -> pd.DataFrame:
    """Returns the columns of a table that the program reads, with ids as texts."""
    parts = {"user": column_of(table, user), "item": column_of(table, item)}
    ids = {name: [id_text(value) for value in part.tolist()] for name, part in parts.items()}
    order = {name: column_of(table, name) for name in ORDER if name in column_names(table, "lists")}
    return pd.DataFrame(ids | order)


def _lists_of_model(model: Model, data: Dataset, split: str, metrics: Sequence[str]) -> pd.DataFrame:
    """Returns the lists of a model for the users of a split, as long as the largest k of the metrics."""
    users = data.validation if split == "validation" else data.test
    rules = {name: data.attributes.get(name, "") for name in ("interaction_weights", "feature_hashing")}
    if model.interaction_weights and rules["interaction_weights"] != model.interaction_weights:
        raise InputError(
            f"{data.path}: the model was trained with the interaction weights {model.interaction_weights}; prepare the dataset "
            "with the same data.prepare.interaction_weights"
        )
    features = users.user_features if model.n_user_features else None
    if features is not None and rules["feature_hashing"] != model.attributes.get("feature_hashing", ""):
        raise InputError(
            f"{data.path}: the user features are not those of {model.path}; prepare the dataset with the same "
            "data.prepare.user_features"
        )
    histories, include = users.fold_in, None
    if not (data.item_id.dtype == model.item_id.dtype and np.array_equal(data.item_id, model.item_id)):
        histories = model.histories(histories)
        with_users = {id_text(value) for value in model.item_id[: model.n_items - model.n_new_items].tolist()}
        mine = data.item_id[: data.n_items - int(data.attributes.get("new_items", 0))]
        include = [value for value in mine.tolist() if id_text(value) in with_users]
    k = max((int(found[1]) for found in (re.search("@([1-9][0-9]{0,8})$", name) for name in metrics) if found), default=1)
    table = model.recommend(histories, k=k, user_features=features, users=users.user_id, include=include)
    return table[["user", "item"]]
