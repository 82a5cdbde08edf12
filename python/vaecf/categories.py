"""Limits the number of items of each category in a list, as vaecf_dist recommend --at-most does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from .errors import InputError
from .ids import IdLookup
from .values import SEPARATOR, field_texts

Array = np.ndarray[Any, Any]


class Categories:
    """The categories of the items of a model, and the largest number of items of each in a list."""

    def __init__(self, categories: Any, most: int, items: IdLookup) -> None:
        """`categories`: a Series or dict of them by item id. Throws InputError for another type."""
        if not isinstance(categories, (pd.Series, Mapping)):
            raise InputError(
                f"at_most must have the categories as a Series or dict by item id, got {type(categories).__name__}; "
                'make one of a table, for example with items.set_index("item").genre'
            )
        self.most = most
        if isinstance(categories, pd.Series):
            ids, values = categories.index.tolist(), categories.tolist()
        else:
            ids, values = list(categories), list(categories.values())
        found = items.positions(ids, "at_most", needed=False)
        known = [(item, value) for item, value in zip(found, values, strict=True) if item >= 0]
        pairs = [(item, name) for item, value in known for name in field_texts(value, SEPARATOR)]
        codes, names = pd.factorize(np.array([name for _, name in pairs], dtype=object))
        rows = np.array([item for item, _ in pairs], np.int64)
        table = sp.csr_matrix((np.ones(len(rows)), (rows, codes)), (len(items.index), len(names)))  # each pair once
        self.of_items = np.split(table.indices, table.indptr[1:-1])
        table = table.tocsc()
        self.items_of = np.split(table.indices, table.indptr[1:-1])

    def top(self, ranked: Array, k: int) -> Array:
        """Returns the positions of the k highest scores, best first, ties by position, without items of a category that
        has its number already; minus infinity is left out."""
        left = np.argsort(-ranked, kind="stable")
        left = left[ranked[left] != -np.inf]
        is_out = np.zeros(len(ranked), bool)
        counts = np.zeros(len(self.items_of), np.int64)
        chosen: list[int] = []
        while len(chosen) < k and len(left) > 0:
            item, left = left[0], left[1:]
            chosen.append(item)
            mine = self.of_items[item]
            counts[mine] += 1
            full = mine[counts[mine] == self.most]
            for category in full:
                is_out[self.items_of[category]] = True
            if len(full) > 0:
                left = left[~is_out[left]]
        return np.array(chosen, np.int64)
