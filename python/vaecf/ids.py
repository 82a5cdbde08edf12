"""Finds users and items by the ids of the source, as vaecf_dist recommend does."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from .errors import InputError
from .values import is_missing

Array = np.ndarray[Any, Any]

MAX_EXACT = 1 << 53
"""Floating-point numbers are exact integers up to here."""


def id_text(value: Any) -> str:
    """Returns an id as text: whole floating-point numbers as integers, missing ones empty. Throws InputError for others."""
    if isinstance(value, str):
        return value
    if type(value) is int:  # most ids
        return str(value)
    if hasattr(value, "__iter__") and not isinstance(value, bytes):
        raise InputError(f"{value!r} is not an id; ids must be integers or texts")
    if is_missing(value):
        return ""
    if isinstance(value, (float, np.floating)):
        if not float(value).is_integer():
            raise InputError(f"{value} is not an id; ids must be integers or texts")
        if abs(float(value)) > MAX_EXACT:
            raise InputError(
                f"{value} is not an id: floating-point numbers above 2^53 are not exact; read the column of ids as "
                "integers or texts"
            )
        return str(int(value))
    return str(value)


def column_names(table: Any, name: str) -> list[str]:
    """Returns the names of the columns of a table of pandas, Polars or PyArrow as texts. `name`: that of the table, for
    messages. Throws InputError if two are the same, or if a name has several levels."""
    columns = getattr(table, "column_names", None) or table.columns
    if isinstance(columns, pd.MultiIndex):
        raise InputError(
            f"{name}: the columns have names of {columns.nlevels} levels (MultiIndex); name each by one text, by "
            "table.columns = ['_'.join(map(str, names)) for names in table.columns]"
        )
    names = [str(column) for column in columns]
    for each in names:
        if names.count(each) > 1:
            raise InputError(f"{name}: two columns are called {each!r}; rename or drop one")
    return names


def index_advice(name: Any, table: Any) -> str:
    """Returns the end of the message that a table has no column of this name, for a DataFrame with such an index."""
    index = getattr(getattr(table, "index", None), "names", None) or []
    return "; it is in the index: call reset_index() before" if name in index else ""


def native_column(table: Any, name: Any) -> Any:
    """Returns a column of a table of pandas, Polars or PyArrow. Throws InputError if there is none of this name, and as
    column_names(), or for another type."""
    if hasattr(table, "collect") or not (hasattr(table, "columns") or hasattr(table, "column_names")):
        raise InputError(
            f"a table must be a DataFrame of pandas, Polars or PyArrow, got {type(table).__name__}; "
            "read a file, and collect a LazyFrame, before"
        )
    names = column_names(table, "the table")
    if str(name) not in names:
        raise InputError(
            f"{name} is not a column of the table; its columns are {', '.join(names)}{index_advice(name, table)}"
        )
    if isinstance(table, pd.DataFrame):
        return table.iloc[:, names.index(str(name))]
    return table[str(name)]


def column_of(table: Any, name: Any) -> Array:
    """Returns a column as native_column() does, as an array."""
    return np.asarray(native_column(table, name))


def id_list(ids: Any, name: str) -> list[Any]:
    """Returns ids as a list. `name`: the argument for messages. Throws InputError for a single id or a table."""
    if hasattr(ids, "collect") or hasattr(ids, "columns") or hasattr(ids, "column_names"):
        kind = type(ids).__name__
        raise InputError(f'{name} must be a list of ids, got a {kind}; pass one of its columns, as table["item"]')
    if isinstance(ids, (str, bytes, int, float, np.generic)):
        raise InputError(f"{name} must be a list of ids, got {ids!r}; write [{ids!r}]")
    try:
        return ids.tolist() if isinstance(ids, (np.ndarray, pd.Series)) else list(ids)
    except TypeError:
        raise InputError(f"{name} must be a list of ids, got {ids!r}") from None


def count_of(value: Any, name: str, least: int) -> int:
    """Returns a number of things. Throws InputError if it is not a whole number of at least `least`. `name`: the argument,
    for messages."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or value < least or value != value // 1:
        raise InputError(f"{name} must be a whole number, {least} or more, got {value!r}")
    return int(value)


def shown(ids: Sequence[str]) -> str:
    """Returns the first of some ids, for messages."""
    return ", ".join(ids[:5]) + ("" if len(ids) <= 5 else " ...")


class IdLookup:
    """The positions of ids. Unknown ids are skipped and counted by a warning, or an error."""

    def __init__(self, find: Callable[[list[str]], Array], ids: Array, where: object, unknown: str | None) -> None:
        """`find` returns the positions of texts among `ids`, -1 for others. `unknown`: skip or raise, or None if the caller
        has no choice. Throws InputError for another value."""
        if unknown not in ("skip", "raise", None):
            raise InputError(f'unknown must be "skip" or "raise", got {unknown!r}')
        self.find = find
        self.ids = ids
        self.size = len(ids)
        self.where = where
        self.skips = unknown == "skip"
        self.advice = "correct the ids" + (', or skip some with unknown="skip"' if unknown == "raise" else "")

    @classmethod
    def of(cls, ids: Array, where: object) -> IdLookup:
        """Returns that of any ids, for which an unknown id is an error. Throws InputError if one occurs twice."""
        index = pd.Index([id_text(value) for value in np.asarray(ids).tolist()], dtype=object)
        if not index.is_unique:
            raise InputError(f"{index[index.duplicated()][0]} occurs twice in {where}; give each one once")
        return cls(lambda texts: index.get_indexer(pd.Index(texts, dtype=object)), ids, where, None)

    def positions(self, ids: Iterable[Any], name: str, *, needed: bool = True, stacklevel: int = 4) -> Array:
        """Returns the positions of ids, -1 for unknown ones. `name`: the argument for messages. `stacklevel`: of warnings.

        Throws InputError for an unknown id if those are not skipped, and, if ids are `needed`, if no id is known.
        """
        texts = [id_text(value) for value in id_list(ids, name)]
        distinct = list(dict.fromkeys(texts))
        position_of = dict(zip(distinct, self.find(distinct).tolist(), strict=True))
        found = np.array([position_of[text] for text in texts], np.int64)
        missing = [text for text, position in position_of.items() if position < 0]
        if missing:
            none = bool((found < 0).all())
            if not self.skips or (needed and none):
                raise InputError(f"{name}: {shown(missing)} not in {self.where}; {self.advice}")
            text = f"{name}: skipped {len(missing)} unknown ids ({shown(missing)})"
            if none:
                text += f"; none is in {self.where} ({', '.join(map(id_text, self.ids[:3].tolist()))} ...)"
            warnings.warn(text, stacklevel=stacklevel)
        return np.asarray(found)

    def known(self, ids: Iterable[Any], name: str, *, needed: bool = True) -> Array:
        """Returns the positions of the known ids, as positions()."""
        found = self.positions(ids, name, needed=needed)
        return found[found >= 0]


def read_events(
    table: Any, user: Any, item: Any, items: IdLookup, only: Iterable[Any] | None, rating: Any, duplicates: str
) -> tuple[sp.csr_matrix, Array]:
    """Returns the items of each user of a table with a line per user and item, (users, items), and the ids of the users
    in the order of their first lines, or in that of `only`.

    The values are those of the column `rating`, which `duplicates` (first, last, sum or max) combines for an item with
    several lines, or ones without it. Throws InputError for a line without rating, and for unknown and missing ids if those
    are not skipped.
    """
    people, names = _codes(table, user)
    things, ids = _codes(table, item)
    complete = np.ones(len(people), bool)
    for codes, column in ((people, user), (things, item)):
        missing = codes < 0
        if missing.any() and not items.skips:
            line = np.argmax(missing)
            raise InputError(f'line {line} of the table has no {column}; remove such lines, or skip them with unknown="skip"')
        if missing.any():
            warnings.warn(f"skipped {missing.sum()} lines without {column}", stacklevel=3)
            complete &= ~missing
    values = np.ones(len(people)) if rating is None else _numbers(table, rating, complete)
    people, things, values = people[complete], things[complete], values[complete]
    used, things = np.unique(things, return_inverse=True)
    columns = items.positions(ids[used], str(item))[things]
    if only is not None:
        chosen = unique(IdLookup.of(names, "the table").known(only, "only"))
        rows = np.full(len(names), -1)
        rows[chosen] = np.arange(len(chosen))
        kept = rows[people] >= 0
        people, columns, values, names = rows[people[kept]], columns[kept], values[kept], names[chosen]
    known = columns >= 0
    shape = (len(names), items.size)
    if rating is None:
        matrix = sp.csr_matrix((np.ones(known.sum(), np.float32), (people[known], columns[known])), shape)
        matrix.data[:] = 1
    else:
        pairs = pd.DataFrame({"user": people[known], "item": columns[known], "value": values[known]})
        pairs = pairs.groupby(["user", "item"], as_index=False).agg(duplicates)
        matrix = sp.csr_matrix((pairs["value"], (pairs["user"], pairs["item"])), shape)
    return matrix, np.asarray(names)


def unique(positions: Array) -> Array:
    """Returns the distinct positions in the order of their first occurrences."""
    return np.asarray(pd.unique(positions))


def _codes(table: Any, name: Any) -> tuple[Array, Array]:
    """Returns the number of each line's id in a column, and the ids in the order of their first lines. Ids with the same
    text, such as 7 and "7", are the same; the number of a line without one is -1."""
    try:
        codes, ids = pd.factorize(column_of(table, name))
    except TypeError:
        raise InputError(f"the column {name} of the table has lists; ids must be integers or texts") from None
    texts, _ = pd.factorize(pd.Index([id_text(value) for value in ids.tolist()], dtype=object))
    return np.append(texts, -1)[codes], np.asarray(ids)[np.unique(texts, return_index=True)[1]]


def _numbers(table: Any, name: str, used: Array) -> Array:
    """Returns a column of numbers. Throws InputError for values in used lines that are not numbers or not finite."""
    column = column_of(table, name)
    numbers = pd.to_numeric(pd.Series(column), errors="coerce").to_numpy(np.float64, na_value=np.nan)
    wrong = ~np.isfinite(numbers) & used
    if wrong.any():
        line = np.argmax(wrong)
        raise InputError(f"line {line} of the table has {name} {column[line]}; it must be a finite number")
    return np.asarray(numbers)
