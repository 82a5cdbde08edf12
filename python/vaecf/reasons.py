"""Computes reasons for recommended items: the contributions of a user's items to their scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

Array = np.ndarray[Any, Any]

# So many items of a user are left out in turn to explain the scores of a network.
MAX_LEFT_OUT = 1000


def differences(
    score: Callable[[sp.csr_matrix, sp.csr_matrix | None], Array],
    row: sp.csr_matrix,
    features: sp.csr_matrix | None,
    listed: Array,
    batch: int,
) -> Array:
    """Returns the scores of the listed items minus those without one of the user's items: (items of the user, listed).

    `score` is called with up to `batch` rows. Only the last MAX_LEFT_OUT items, by column, are left out; the others
    have nan.
    """
    size = row.nnz
    left_out = np.arange(max(0, size - MAX_LEFT_OUT), size)
    kept = np.ones((len(left_out) + 1, size), bool)  # the first row has all items
    kept[np.arange(1, len(kept)), left_out] = False
    indices, data = (np.broadcast_to(values, kept.shape)[kept] for values in (row.indices, row.data))
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    rows = sp.csr_matrix((data, indices, indptr), (len(kept), row.shape[1]))
    parts = []
    for first in range(0, len(kept), batch):
        some = rows[first : first + batch]
        wide = None if features is None else sp.vstack([features] * some.shape[0], format="csr")
        parts.append(score(some, wide)[:, listed])
    scores = np.concatenate(parts)
    found = np.full((size, len(listed)), np.nan, np.float32)
    found[left_out] = scores[0] - scores[1:]
    return found


def largest(history: Array, contributions: Array, count: int) -> tuple[Array, Array]:
    """Returns the columns and contributions of the reasons, (listed, count), padded with -1 and nan.

    `contributions` is (items of the user, listed). Largest first; of equal ones the lower column comes first.
    """
    listed = contributions.shape[1]
    order = np.argsort(-contributions, axis=0, kind="stable")[:count]
    because = np.full((listed, count), -1, np.int64)
    values = np.full((listed, count), np.nan, np.float32)
    values[:, : len(order)] = np.take_along_axis(contributions, order, axis=0).T
    because[:, : len(order)] = np.where(np.isnan(values[:, : len(order)]), -1, history[order].T)
    return because, values


def series(texts: Array, columns: Array) -> pd.Series[Any]:
    """Returns the ids or titles of some columns: integers as Int64, texts as objects; missing where a column is -1."""
    chosen = texts[np.maximum(columns, 0)].astype(object)
    chosen[columns < 0] = None
    return pd.Series(chosen, dtype="Int64" if np.issubdtype(texts.dtype, np.integer) else object)
