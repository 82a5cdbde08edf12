"""Recommends with the model of a checkpoint, by libvaecf, the code of `vaecf_dist recommend`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from .categories import category_rows
from .dataset import ItemMatrix, item_matrix, open_hdf5, read_attributes, read_values, titles_of
from .errors import InputError
from .ids import IdLookup, column_of, count_of, id_list, id_text, native_column, read_events, shown, unique
from .library import identity, load
from .texts import local_path
from .values import SEPARATOR, field_texts, python_values
from .yaml_files import flatten, parse_yaml

Array = np.ndarray[Any, Any]

MAX_REASONS = 1000


class Model:
    """A checkpoint of vaecf_dist of any `model.type`, ready to score users.

    Scores and lists are those of `vaecf_dist recommend`, to the bit, for the same users in one call. Models of one file
    share its weights. Several threads may use a model. A pickled model is the path of its file, which is read again; a
    process that was forked computes with one thread.

    >>> vaecf.Model("runs/dense/checkpoints/best.h5")
    Model('runs/dense/checkpoints/best.h5'): ..., 20 items
    """

    def __init__(self, path: str | Path) -> None:
        """Reads a checkpoint. Throws InputError if the file is not one of this package's version."""
        self.path = local_path(path)
        file = None
        while file != (now := identity(self.path)):  # again if it is replaced meanwhile
            file = now
            self._loaded = load(self.path, file)
            self._read()

    def _read(self) -> None:
        """Reads what describes the model."""
        with open_hdf5(self.path) as file:
            self.attributes = read_attributes(file)
            self.type = str(self.attributes["model_type"])
            self.n_items = int(self.attributes["items"])
            self.n_user_features = int(self.attributes.get("user_features", 0))
            self.n_new_items = int(self.attributes.get("new_items", 0))
            """The number of items without train users, the last ones, which recommend() leaves out."""
            self.interaction_weights = str(self.attributes.get("interaction_weights", ""))
            """data.prepare.interaction_weights of the dataset, if the model was trained with interaction weights; else empty."""
            self.is_solved = bool(self._loaded.facts["solved"])
            """Whether the model is solved at once; others are trained by epochs."""
            self.epoch = int(self.attributes["epoch"])
            """The number of finished epochs, or that of the solution of a model that is solved at once."""
            self.config: dict[str, Any] = flatten(parse_yaml(str(self.attributes.get("configuration", ""))) or {})
            self.item_id = read_values(file, "items/id")
            """The ids of the items in the source, in the order of the columns."""
            self.item_title = read_values(file, "items/title") if "items/title" in file else None
            """The titles of the items; None if the dataset had none."""
            self.item_users = read_values(file, "items/users")
            """The number of train users of each item."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.path.absolute(), self._loaded.facts["checksum"])

    def __repr__(self) -> str:
        return f"Model({str(self.path)!r}): {self.type}, {self.n_items} items"

    def titles(self, ids: pd.Series[Any] | Array) -> list[str]:
        """Returns the titles of items by their ids. Throws InputError if the model has no titles.

        >>> model = vaecf.Run("runs/dense").model()
        >>> model.titles([1, 2])
        ['Film 1', 'Film 2']
        """
        return titles_of(ids, self.item_id, self.item_title, self.path)

    def histories(
        self,
        users: ItemMatrix | Mapping[Any, Iterable[Any]] | Iterable[Iterable[Any]],
        values: Iterable[Iterable[float]] | None = None,
        *,
        unknown: str = "skip",
    ) -> ItemMatrix:
        """Returns the matrix (users, items) of lists of item ids, or of the rows of a Dataset, also of one with other items.

        Ids are those of the source, as numbers or texts; of a dict of lists by user, the users are its rows. `values`: for a
        model trained with interaction weights, the play counts or ratings of these items, in lists like those of `users`,
        which may be dicts of values by item id instead; those of a repeated item are added. They become weights as
        in training: v or log(1 + v), divided by the mean of the user. Without values all items weigh 1. `unknown`:
        skip ids that the model does not know, with a warning that counts them, or raise an InputError. Throws InputError
        if the values do not fit the items or the model.

        >>> model = vaecf.Run("runs/plays").model()
        >>> history = model.histories([[1, 3]])
        >>> history.shape, sorted(model.item_id[history.indices].tolist())
        ((1, 20), [1, 3])
        >>> plays = model.histories([[1, 3]], [[4, 1]])
        >>> [round(float(weight), 3) for weight in plays.data]
        [1.398, 0.602]
        """
        if isinstance(users, ItemMatrix) and users.item_id is not None and values is None:
            return self._known_items(users, unknown)
        lists = list(users.values() if isinstance(users, Mapping) else users)
        if values is None and lists and all(isinstance(items, Mapping) for items in lists):
            values = [list(items.values()) for items in lists]
        ids = [id_list(items, "each of the users") for items in lists]
        counts = [len(items) for items in ids]
        numbers = [[1.0] * count for count in counts] if values is None else [list(row) for row in values]
        if counts != [len(row) for row in numbers]:
            raise InputError("values must have a number for each item of each user")
        indices = self._items(unknown).positions(list(chain.from_iterable(ids)), "users", needed=False, stacklevel=3)
        known = indices >= 0
        row = np.repeat(np.arange(len(ids)), np.array(counts, np.int64))
        data = np.array(list(chain.from_iterable(numbers)), np.float64)
        shape = len(ids), self.n_items
        rows = sp.csr_matrix((data[known], (row[known], indices[known])), shape)  # adds values of repeated items
        rows.data = np.ones(rows.nnz, np.float32) if values is None else self._weights_of(rows, "values")
        return item_matrix(rows, self.item_id)

    def _known_items(self, rows: ItemMatrix, unknown: str) -> ItemMatrix:
        """Returns the rows of a dataset with the columns of the model. Weights are divided by the mean of the known items."""
        assert rows.item_id is not None
        column_of_item = self._items(unknown).positions(rows.item_id, "the items of the histories", stacklevel=4)
        row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        column = column_of_item[rows.indices]
        known = column >= 0
        found = sp.csr_matrix((rows.data[known], (row[known], column[known])), (rows.shape[0], self.n_items))
        counts = np.diff(found.indptr)
        sums = np.asarray(found.sum(axis=1)).ravel()
        found.data = (found.data * np.repeat(counts / np.where(sums > 0, sums, 1), counts)).astype(np.float32)
        return item_matrix(found, self.item_id)

    def _weights_of(self, rows: sp.csr_matrix, name: str) -> Array:
        """Returns the weights of the values of `rows`, in the order of its data. `name`: that of the values for messages."""
        if not self.interaction_weights:
            raise InputError(f"{self.path}: the model was trained without interaction weights; omit {name}")
        if not (np.isfinite(rows.data) & (rows.data > 0)).all():
            raise InputError(f"{name} must be finite and above 0")
        weights = np.log1p(rows.data) if self.interaction_weights == "log1p" else rows.data
        counts = np.diff(rows.indptr)
        row = np.repeat(np.arange(len(counts)), counts)
        means = np.bincount(row, weights, len(counts)) / np.maximum(counts, 1)
        return np.asarray(weights / means[row], np.float32)

    def user_features_of(
        self,
        table: Any,
        user: str | int | None = None,
        users: Sequence[Any] | Array | None = None,
        *,
        unknown: str = "raise",
    ) -> sp.csr_matrix:
        """Returns the feature inputs (users, features) of the rows of a table of users.

        The table must have the columns that the dataset was prepared with. `user`, `users`: the name of its column of
        ids, and the ids of the rows to return. Users with several rows have the values of all of them. `unknown`: raise an
        InputError for those who are not in the table, or skip them, who then have no features, with a warning that counts
        them. Throws InputError also if a column is missing, or if the model was trained without features.

        >>> model = vaecf.Run("runs/plays").model()
        >>> model.user_features_of(users, "user", ["u7", "u8"]).shape == (2, model.n_user_features)
        True
        """
        if self.n_user_features == 0:
            raise InputError(f"{self.path}: the model was trained without features; omit them")
        rows = [[row] for row in range(len(table))]
        if user is not None and users is not None:
            rows_of: dict[str, list[int]] = {}
            for row, value in enumerate(column_of(table, user).tolist()):
                rows_of.setdefault(id_text(value), []).append(row)
            texts = [id_text(value) for value in users]
            rows = [rows_of.get(text, []) for text in texts]
            missing = [text for text, found in zip(texts, rows, strict=True) if not found]
            if missing and unknown != "skip":
                raise InputError(f'users: {shown(missing)} not in the table; correct the ids, or skip some with unknown="skip"')
            if missing:
                warnings.warn(f"{len(missing)} users are not in the table; they have no features", stacklevel=3)
        separator = str(self.config.get("data.source.users.value_separator", SEPARATOR))
        order = np.array([row for of_user in rows for row in of_user], np.int64)
        user_of = np.repeat(np.arange(len(rows)), [len(of_user) for of_user in rows])
        inputs = sp.csr_matrix((len(rows), self.n_user_features), dtype=np.float32)
        for name in self._loaded.facts["user_feature_columns"]:
            fields = python_values(native_column(table, name))
            values = [field_texts(field, separator) for field in fields]
            texts = np.array([text for row in order for text in values[row]], dtype=object)
            codes, distinct = pd.factorize(texts)
            columns = [self._loaded.user_feature_columns(name, text) for text in distinct.tolist()]
            chosen = [columns[code] for code in codes]
            user = np.repeat(user_of, [len(values[row]) for row in order])
            indices = np.concatenate([np.empty(0, np.int32), *chosen])
            pairs = np.repeat(user, [len(some) for some in chosen]), indices
            inputs += sp.csr_matrix((np.ones(len(indices), np.float32), pairs), inputs.shape)
        inputs.data[:] = 1
        return inputs

    def score(self, histories: Any, user_features: Any = None) -> Array:
        """Returns the scores (users, items), float32, in the order of the columns.

        `histories`: matrix (users, items), sparse or dense; an entry other than 0 is an item of the user. It is its
        weight for a model trained with interaction weights, and counts as 1 for others. Matrices of a Dataset must have
        the items of the model; those of SciPy and NumPy have its columns. Or lists of item ids, as for histories(). `user_features`: matrix
        (users, features) for a model that was trained with features; without it, users have none. A user with neither
        items nor features has the score nan for all items. Throws InputError for other items or another number of
        columns.

        >>> model = vaecf.Run("runs/dense").model()
        >>> data = vaecf.Dataset("data/own.h5")
        >>> model.score(data.test.fold_in[:5]).shape
        (5, 20)
        """
        return self._loaded.score(*self._inputs(histories, user_features))

    def item_vectors(self) -> Array:
        """Returns the vectors of the items, (items, width), float32, in the order of the columns, for a search engine.

        The score of an item for a user is the inner product of their vectors, up to rounding; for a network with
        the squared loss it is its sigmoid. If the output layer has a bias, that is the last element of an item's vector,
        and 1 that of a user's. Throws InputError for a model of weights between items, which has no vectors.

        >>> model = vaecf.Run("runs/vectors").model()
        >>> vectors, user = model.item_vectors(), model.user_vectors([[1, 3]])[0]
        >>> vectors.shape, user.shape
        ((20, 256), (256,))
        >>> np.allclose(vectors @ user, model.score([[1, 3]]), atol=1e-5)
        True
        """
        return self._loaded.item_vectors()

    def user_vectors(self, histories: Any, user_features: Any = None) -> Array:
        """Returns the vectors of users, (users, width), float32, whose `histories` and `user_features` are as for score().

        >>> model = vaecf.Run("runs/vectors").model()
        >>> model.user_vectors(vaecf.Dataset("data/own.h5").test.fold_in).shape
        (10, 256)
        """
        return self._loaded.user_vectors(*self._inputs(histories, user_features))

    def recommend(
        self,
        histories: Any,
        k: int = 10,
        *,
        user_features: Any = None,
        users: Sequence[Any] | Array | None = None,
        keep_seen: bool = False,
        titles: bool = False,
        include: Iterable[Any] | None = None,
        reasons: int = 0,
        user: str | int | None = None,
        item: str | int | None = None,
        rating: str | int | None = None,
        only: Iterable[Any] | None = None,
        exclude: Mapping[Any, Iterable[Any]] | Iterable[Any] | None = None,
        unknown: str = "skip",
        at_most: tuple[Any, int] | None = None,
    ) -> pd.DataFrame:
        """Returns the top k items of each user: columns user, item and score, best first, ties by column.

        `histories` and `user_features` are as for score(); of a dict of lists by user, its keys are the column user. Or `histories` is a table of pandas, Polars or PyArrow with a line
        per user and item, whose columns `user` and `item` name; `user_features` is then a matrix, or a table of users with
        the column `user`, as for user_features_of(). `rating`: for a model trained with interaction weights, the column of play
        counts or ratings, which become weights as in training; those of an item with several lines are combined by the model's
        data.prepare.duplicates. Without it all items weigh 1, with a warning. `users`: the ids for the column user of a matrix;
        default: row numbers. `only`: the ids of the users to recommend to, in this order. Items of the history are left
        out unless `keep_seen`. A user with neither items nor features gets the items with the most train users, with
        score nan. `titles` adds a column title.

        `include`: ids of the only items to recommend; default: all but new items. `exclude`: ids of items that are not
        recommended, or such ids by user. `at_most`: a Series or dict of categories by item id, such as genres, and the
        largest number of items of a category in a list. An item may have several: "A|B", a list, or repeated ids of a
        Series; items without one are not limited. `unknown`: skip ids that are missing, or that the model does not know, with
        a warning that counts them, or raise an InputError. An unknown id in `only` is always an error, and so is it if no
        id of `include`, or no item of a table, is known.

        `reasons`: the number of reasons for each item, as docs/SCORES.md describes: the items of the history with the
        largest contributions, in columns because_1, contribution_1 and so on, and because_title_1 with `titles`. Unused
        ones are missing.

        >>> model = vaecf.Run("runs/dense").model()
        >>> model.recommend({"ann": [1, 3], "bob": [2, 4]}, k=2, titles=True).drop(columns="score")
          user  item    title
        0  ann    15  Film 15
        1  ann     7   Film 7
        2  bob     6   Film 6
        3  bob    18  Film 18
        >>> model.recommend([[1, 3]], k=2)["item"].tolist()
        [15, 7]
        >>> model.recommend(events, user="user", item="item", only=["u8", "u3"], k=1)["item"].tolist()
        [11, 18]
        """
        k, reasons = count_of(k, "k", 1), count_of(reasons, "reasons", 0)
        if reasons > MAX_REASONS:
            raise InputError(f"reasons must be at most {MAX_REASONS}, got {reasons}")
        if titles and self.item_title is None:
            raise InputError(f"{self.path}: contains no titles; omit titles=True, or prepare the dataset with titles")
        if at_most is not None and not (isinstance(at_most, (tuple, list)) and len(at_most) == 2):
            raise InputError("at_most must be a pair of the categories by item id and the largest number of items of one")
        if at_most is not None:
            at_most = at_most[0], count_of(at_most[1], "the number of items in at_most", 1)
        lookup = self._items(unknown)
        if (user is None) != (item is None):
            raise InputError("user and item must both name a column of the table, or none for a matrix")
        if user is None and rating is not None:
            raise InputError("rating is for tables; the values of a matrix are weights already")
        if user is not None and item is not None:
            if users is not None:
                raise InputError("users is for matrices; the column user of the table has the ids")
            duplicates = str(self.config.get("data.prepare.duplicates", "first"))
            histories, names = read_events(histories, user, item, lookup, only, rating, duplicates)
            if rating is not None:
                histories.data = self._weights_of(histories, str(rating))
            elif self.interaction_weights:
                warnings.warn(
                    f"all items weigh the same, but the model was trained with interaction weights ({self.interaction_weights}); "
                    "name the column of play counts or ratings by rating=",
                    stacklevel=2,
                )
            if user_features is not None and not sp.issparse(user_features) and not isinstance(user_features, np.ndarray):
                user_features = self.user_features_of(user_features, user, names, unknown="skip")
        if isinstance(histories, Mapping):
            if users is not None:
                raise InputError("users is for matrices and lists; the keys of the dict have the ids")
            users = list(histories)
        rows, wide = self._inputs(histories, user_features, unknown)
        if user is None:
            names = np.arange(rows.shape[0]) if users is None else np.asarray(users)
            if len(names) != rows.shape[0]:
                raise InputError(f"users must have one id per row of histories, {rows.shape[0]}, got {len(names)}")
            if only is not None:
                chosen = unique(IdLookup.of(names, "users").known(only, "only"))
                rows, names, wide = rows[chosen], names[chosen], wide if wide is None else wide[chosen]
        included = None if include is None else lookup.known(include, "include")
        excluded, of_user = None, None
        if isinstance(exclude, Mapping):
            of_user = _excluded_of_user(exclude, lookup, names)
        elif exclude is not None:
            excluded = lookup.known(exclude, "exclude", needed=False)
        lists = self._loaded.recommend(
            rows,
            wide,
            k=k,
            keep_seen=keep_seen,
            reasons=reasons,
            include=included,
            exclude=excluded,
            exclude_of_user=of_user,
            categories=None if at_most is None else category_rows(at_most[0], lookup),
            at_most=0 if at_most is None else at_most[1],
        )
        used = lists.items >= 0
        parts: dict[str, Any] = {
            "user": np.repeat(names, used.sum(axis=1)),
            "item": self.item_id[lists.items[used]],
            "score": lists.scores[used],
        }
        if titles:
            parts["title"] = self._texts_of(self.item_title, lists.items[used])
        because, contributions = lists.because[used], lists.contributions[used]
        for n in range(reasons):
            parts[f"because_{n + 1}"] = self._texts_of(self.item_id, because[:, n])
            parts[f"contribution_{n + 1}"] = contributions[:, n]
            if titles:
                parts[f"because_title_{n + 1}"] = self._texts_of(self.item_title, because[:, n])
        return _table(parts)

    def similar(self, items: Any, k: int = 10, titles: bool = False) -> pd.DataFrame:
        """Returns the k items most similar to each of some items by the model's weights: columns item, similar and score,
        best first, ties by column.

        `items`: an id or several. docs/SCORES.md describes the scores. `titles` adds a column title, of the similar
        item. Throws InputError for an unknown id.

        >>> model = vaecf.Run("runs/dense").model()
        >>> model.similar(3, k=2, titles=True)[["similar", "title"]]
           similar    title
        0       15  Film 15
        1        7   Film 7
        """
        k = count_of(k, "k", 1)
        wanted = [items] if isinstance(items, (str, int, float, np.number)) else items
        columns = self._items(None).positions(wanted, "items")
        found, scores = self._loaded.similar(columns, k)
        used = found >= 0
        parts: dict[str, Any] = {
            "item": np.repeat(self.item_id[columns], used.sum(axis=1)),
            "similar": self.item_id[found[used]],
            "score": scores[used],
        }
        table = _table(parts)
        if titles:
            table["title"] = self.titles(table["similar"])
        return table

    def _items(self, unknown: str | None) -> IdLookup:
        return IdLookup(self._loaded.find, self.item_id, f"the items of {self.path}", unknown)

    @staticmethod
    def _texts_of(texts: Array | None, columns: Array) -> pd.Series[Any]:
        """Returns the ids or titles of some columns: integers as Int64, texts as objects; missing where a column is -1."""
        assert texts is not None
        chosen = texts[np.maximum(columns, 0)].astype(object)
        chosen[columns < 0] = None
        return pd.Series(chosen, dtype="Int64" if np.issubdtype(texts.dtype, np.integer) else object)

    def _inputs(
        self, histories: Any, user_features: Any, unknown: str = "skip"
    ) -> tuple[sp.csr_matrix, sp.csr_matrix | None]:
        """Returns the inputs as CSR matrices without stored zeros; all values are 1 except weights."""
        if isinstance(histories, (Mapping, list, tuple)):
            histories = self.histories(histories, unknown=unknown)
        ids = histories.item_id if isinstance(histories, ItemMatrix) else None
        if ids is not None and (ids.dtype != self.item_id.dtype or not np.array_equal(ids, self.item_id)):
            raise InputError(
                f"{self.path}: the histories have other items than the model; use the dataset that it was trained on, or "
                "Model.histories(histories), which finds the items by their ids"
            )
        rows = _as_rows(histories, self.n_items, "histories", bool(self.interaction_weights))
        if user_features is None:
            return rows, None
        if self.n_user_features == 0:
            raise InputError(f"{self.path}: the model was trained without features; omit them")
        wide = _as_rows(user_features, self.n_user_features, "user_features", False)
        if wide.shape[0] != rows.shape[0]:
            raise InputError(f"user_features must have one row per row of histories, {rows.shape[0]}, got {wide.shape[0]}")
        return rows, wide


def _reopen(path: Path, checksum: str) -> Model:
    """Returns the model of a pickled one. Throws InputError if the file is another one now."""
    model = Model(path)
    if model._loaded.facts["checksum"] != checksum:  # pylint: disable=protected-access
        raise InputError(f"{path}: is another checkpoint than that of the pickled model; pickle a Model of this file")
    return model


def _table(parts: Mapping[str, Any]) -> pd.DataFrame:
    # With the dtype of the array, since a column of pandas' own texts cannot contain surrogates.
    return pd.DataFrame({name: pd.Series(part, dtype=part.dtype) for name, part in parts.items()})


def _excluded_of_user(exclude: Mapping[Any, Iterable[Any]], items: IdLookup, users: Array) -> sp.csr_matrix | None:
    """Returns the items to exclude for each of the users, (users, items); None if there are none."""
    lists = {id_text(key): id_list(ids, "exclude") for key, ids in exclude.items()}
    positions = items.positions([each for ids in lists.values() for each in ids], "exclude", needed=False)
    ends = np.cumsum([len(ids) for ids in lists.values()], dtype=np.int64)
    found = {key: some[some >= 0] for key, some in zip(lists, np.split(positions, ends), strict=False)}
    nothing = np.empty(0, positions.dtype)
    of_users = [found.get(id_text(user), nothing) for user in users.tolist()]
    columns = np.concatenate([nothing, *of_users])
    if len(columns) == 0:
        return None
    row = np.repeat(np.arange(len(of_users)), [len(some) for some in of_users])
    return sp.csr_matrix((np.ones(len(columns), np.float32), (row, columns)), (len(of_users), items.size))


def _as_rows(matrix: Any, columns: int, name: str, weighted: bool) -> sp.csr_matrix:
    """Returns a matrix as CSR without stored zeros, in float32; without weights, its values are 1."""
    is_table = hasattr(matrix, "columns") or hasattr(matrix, "column_names")
    advice = "; recommend() takes a table of users and items, whose columns user= and item= name" if is_table else ""
    try:
        rows = sp.csr_matrix(matrix, copy=True)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a matrix of numbers, got {type(matrix).__name__}{advice}") from None
    if rows.shape[1] != columns:
        raise InputError(f"{name} must have the model's {columns} columns, got {rows.shape[1]}{advice}")
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.data = rows.data.astype(np.float32) if weighted else np.ones(rows.nnz, np.float32)
    if not (np.isfinite(rows.data) & (rows.data > 0)).all():
        raise InputError(f"{name} must have finite weights above 0, since the model was trained with interaction weights")
    return rows
