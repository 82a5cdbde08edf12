"""Answers requests by a model: lists for users, and similar items."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..categories import category_rows
from ..errors import InputError
from ..ids import IdLookup
from ..library import SparseRows
from ..model import Model
from ..texts import escaped
from ..values import SEPARATOR, field_texts
from .requests import Recommend, Similar

Array = np.ndarray[Any, Any]


def _require_utf8(ids: Array, path: Path) -> None:
    """Throws InputError if an id cannot be written in JSON."""
    for text in ids.tolist() if ids.dtype == object else ():
        try:
            text.encode()
        except UnicodeEncodeError:
            stored = text.encode("utf-8", "surrogateescape")
            raise InputError(f"{path}: the item {stored!r} is not UTF-8, which JSON requires") from None


def read_categories(path: str, column: str | None) -> pd.Series[Any]:
    """Returns the texts of categories by item id of a table with a header, CSV or, by its ending, TSV. `column`: that of the
    categories; default: `category`, or the other one of two. Throws InputError if it cannot be read."""
    try:
        separator = "\t" if path.endswith((".tsv", ".tsv.gz")) else ","
        table = pd.read_csv(path, sep=separator, dtype=str, encoding_errors="surrogateescape", keep_default_na=False)
    except (OSError, ValueError) as error:
        raise InputError(f"--at-most {path}: cannot be read: {error}") from None
    names = table.columns.tolist()
    item = "item" if "item" in names else names[0]
    found = column or ("category" if "category" in names else names[-1] if len(names) == 2 else None)
    if found not in names or found == item:
        raise InputError(
            f"--at-most {path}: its columns are {', '.join(names)}; name that of the categories by --category-column"
        )
    return table.set_index(item)[found]


def _used(columns: Array) -> int:
    """Returns the length of a list, whose unused places are its last ones and have -1."""
    return len(columns) if len(columns) == 0 or columns[-1] >= 0 else int((columns >= 0).sum())


class ServedModel:
    """The model of a checkpoint, which does not change, and how its answers look."""

    def __init__(self, path: Path, categories: pd.Series[Any] | None = None, at_most: int = 0) -> None:
        """`at_most`: the number of items of a category in a list, unless a request has another; 0: no limit. Throws InputError
        if the file is not a valid checkpoint, or its ids are not UTF-8."""
        self.model = Model(path)
        self.loaded = self.model._loaded  # pylint: disable=protected-access
        self.at_most = at_most
        self.since = time.time()
        self.items = self.model.n_items
        self.item_id = self.model.item_id
        _require_utf8(self.item_id, path)
        # Of most ids; the library finds the others, such as "7" among integers.
        self._column_of: dict[int | str, int] = {each: column for column, each in enumerate(self.item_id.tolist())}
        self.titles: Array | None = None
        if self.model.item_title is not None:
            texts = (title.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for title in self.model.item_title)
            self.titles = np.array(list(texts), dtype=object)
        self.categories = None
        if categories is not None:
            lookup = IdLookup(self.loaded.find, self.item_id, f"the items of {path}", "skip")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a table of all items has others than a model
                self.categories = category_rows(categories, lookup)
            if self.categories.nnz == 0:
                raise InputError(f"{path}: no item of the table of --at-most is one of the model")

    def describe(self) -> dict[str, Any]:
        """Returns what describes the model."""
        name = escaped(str(self.model.path))
        return {**self.loaded.facts, "checkpoint": name, "epoch": self.model.epoch, "since": self.since}

    def recommend(self, asked: Recommend) -> tuple[dict[str, Any], int]:
        """Returns the answer to a request, and the number of unknown ids in it. Throws InputError for values that do not
        fit the model."""
        histories, unknown = self._histories(asked)
        answer: dict[str, Any] = {}
        everywhere: list[str] = []
        include = None if asked.include is None else self._known(asked.include, everywhere)
        exclude = self._known(asked.exclude, everywhere) if asked.exclude else None
        excluded = None
        if any(user.exclude for user in asked.users):
            excluded = self._rows([user.exclude for user in asked.users], unknown)
        at_most = self.at_most if asked.at_most is None else asked.at_most
        if at_most > 0 and self.categories is None:
            raise InputError("at_most: the server has no categories; start it with --at-most FILE N")
        if asked.titles and self.titles is None:
            raise InputError("titles: the checkpoint contains no titles of items")
        lists = self.loaded.recommend(
            histories,
            self._features(asked),
            k=asked.k,
            keep_seen=asked.keep_seen,
            reasons=asked.reasons,
            include=include,
            exclude=exclude,
            exclude_of_user=excluded,
            categories=self.categories if at_most > 0 else None,
            at_most=at_most,
            threads=1,
        )
        answer["users"] = users = []
        for row, (user, columns) in enumerate(zip(asked.users, lists.items, strict=True)):
            used = _used(columns)
            one: dict[str, Any] = {} if user.user is None else {"user": user.user}
            one |= self._named(columns[:used], lists.scores[row, :used], "items", asked.titles)
            if asked.reasons:
                because, parts = lists.because[row, :used], lists.contributions[row, :used]
                kept = [int(found) for found in (because >= 0).sum(axis=1)]
                one["because"] = [self.item_id[each[:n]].tolist() for each, n in zip(because, kept, strict=True)]
                one["contribution"] = [each[:n].tolist() for each, n in zip(parts, kept, strict=True)]
            if unknown[row]:
                one["unknown"] = unknown[row]
            users.append(one)
        if everywhere:
            answer["unknown"] = everywhere
        return answer, len(everywhere) + sum(map(len, unknown))

    def similar(self, asked: Similar) -> tuple[dict[str, Any], int]:
        """Returns the answer to a request, and the number of unknown ids in it."""
        if asked.titles and self.titles is None:
            raise InputError("titles: the checkpoint contains no titles of items")
        unknown: list[str] = []
        columns = self._known(asked.items, unknown)
        found, scores = self.loaded.similar(columns, asked.k)
        lists = []
        for item, of_item, similarities in zip(self.item_id[columns].tolist(), found, scores, strict=True):
            used = _used(of_item)
            lists.append({"item": item, **self._named(of_item[:used], similarities[:used], "similar", asked.titles)})
        answer: dict[str, Any] = {"items": lists}
        if unknown:
            answer["unknown"] = unknown
        return answer, len(unknown)

    def _named(self, columns: Array, scores: Array, name: str, titles: bool) -> dict[str, Any]:
        found = {name: self.item_id[columns].tolist(), "scores": scores.tolist()}
        if titles and self.titles is not None:
            found["titles"] = self.titles[columns].tolist()
        return found

    def _known(self, ids: Iterable[int | str], unknown: list[str]) -> Array:
        """Returns the columns of the known ids, and adds the others to `unknown`."""
        given = list(ids)
        columns = self._find(given)
        unknown += [str(each) for each, column in zip(given, columns, strict=True) if column < 0]
        return np.array([column for column in columns if column >= 0], np.int32)

    def _find(self, ids: list[int | str]) -> list[int]:
        """Returns the columns of ids; -1 for unknown ones."""
        columns: list[Any] = list(map(self._column_of.get, ids))
        if None in columns:
            missing = [place for place, column in enumerate(columns) if column is None]
            found = self.loaded.find([str(ids[place]) for place in missing])
            for place, column in zip(missing, found.tolist(), strict=True):
                columns[place] = column
        return columns

    def _rows(
        self, lists: Sequence[Sequence[int | str]], unknown: Sequence[list[str]], weights: Sequence[list[float]] | None = None
    ) -> SparseRows:
        """Returns the columns of the ids of each user, ascending, each once, with its first weight divided by the mean of
        the user. Adds ids without a column to the `unknown` ones of the user."""
        found = self._find([each for ids in lists for each in ids])
        begin, indices, data, end = [0], [], [], 0
        for user, (ids, missing) in enumerate(zip(lists, unknown, strict=True)):
            columns = found[end : end + len(ids)]
            end += len(ids)
            kept = sorted(set(columns))
            if kept and kept[0] < 0:
                missing += [str(each) for each, column in zip(ids, columns, strict=True) if column < 0]
                del kept[0]
            indices += kept
            begin.append(len(indices))
            if weights is not None:
                of_column = dict(zip(reversed(columns), reversed(weights[user]), strict=True))
                mean = sum(of_column[column] for column in kept) / max(1, len(kept))
                data += [of_column[column] / mean for column in kept]
        shape = len(lists), self.items
        values = None if weights is None else np.array(data, np.float32)
        return SparseRows(shape, np.array(begin, np.int64), np.fromiter(indices, np.int32, len(indices)), values)

    def _histories(self, asked: Recommend) -> tuple[SparseRows, list[list[str]]]:
        """Returns the items of each user with their weights, and the unknown ones."""
        unknown: list[list[str]] = [[] for _ in asked.users]
        rule = self.model.interaction_weights
        if not rule:
            if any(tuple in set(map(type, user.items)) for user in asked.users):
                raise InputError("items: the model was trained without interaction weights, so that items have no values")
            return self._rows([user.items for user in asked.users], unknown), unknown  # type: ignore[misc]
        # As of recommend --stream, an item without a value weighs 1.
        weight_of = math.log1p if rule == "log1p" else float
        lists, weights = [], []
        for user in asked.users:
            lists.append([item[0] if isinstance(item, tuple) else item for item in user.items])
            weights.append([weight_of(item[1]) if isinstance(item, tuple) else 1.0 for item in user.items])
        return self._rows(lists, unknown, weights), unknown

    def _features(self, asked: Recommend) -> SparseRows | None:
        """Returns the features of each user; None if no user has any."""
        if not any(user.user_features for user in asked.users):
            return None
        if self.model.n_user_features == 0:
            raise InputError("user_features: the model was trained without features")
        separator = str(self.model.config.get("data.source.users.value_separator", SEPARATOR))
        rows = []
        for user in asked.users:
            pairs = [(name, text) for name, field in user.user_features.items() for text in field_texts(field, separator)]
            columns = [self.loaded.user_feature_columns(name, text) for name, text in pairs]
            rows.append(np.unique(np.concatenate([np.empty(0, np.int32), *columns])))
        begin = np.cumsum([0, *map(len, rows)])
        return SparseRows((len(rows), self.model.n_user_features), begin, np.concatenate(rows), None)
