"""Reads the categories of items whose number in a list is limited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from .errors import InputError
from .ids import IdLookup
from .values import SEPARATOR, field_texts

def category_rows(categories: Any, items: IdLookup) -> sp.csr_matrix:
    """Returns the numbers of the categories of each item, (items, categories), from a Series or dict of them by item id.
    Throws InputError for another type."""
    if not isinstance(categories, (pd.Series, Mapping)):
        raise InputError(
            f"at_most must have the categories as a Series or dict by item id, got {type(categories).__name__}; "
            'make one of a table, for example with items.set_index("item").genre'
        )
    if isinstance(categories, pd.Series):
        ids, values = categories.index.tolist(), categories.tolist()
    else:
        ids, values = list(categories), list(categories.values())
    found = items.positions(ids, "at_most", needed=False)
    known = [(item, value) for item, value in zip(found, values, strict=True) if item >= 0]
    texts: dict[str, list[str]] = {}  # few texts stand for many items
    for _, value in known:
        if isinstance(value, str) and value not in texts:
            texts[value] = list(field_texts(value, SEPARATOR))
    pairs = [
        (item, name)
        for item, value in known
        for name in (texts[value] if isinstance(value, str) else field_texts(value, SEPARATOR))
    ]
    codes, names = pd.factorize(np.array([name for _, name in pairs], dtype=object))
    rows = np.array([item for item, _ in pairs], np.int64)
    return sp.csr_matrix((np.ones(len(rows), np.float32), (rows, codes)), (items.size, len(names)))  # each pair once
