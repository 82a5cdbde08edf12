"""Makes the texts of features, in one place for the tables of training and those of serving."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

BLANKS = " \t\n\r\f\v"
"""What is removed around texts, as vaecf_dist does (src/data/source/table.cpp)."""

WHOLE = re.compile(r"-?[0-9]+\.0")
"""The text of a whole number in floating point."""

SEPARATOR = "|"
"""The default of data.source.users.value_separator and data.source.items.value_separator."""

SINGLE = {"float32": np.float32, "float": np.float32, "float16": np.float16, "halffloat": np.float16}
"""Types of numbers whose shortest text is not that of the same number in fp64, by the names of pandas, Polars and PyArrow."""


def python_values(column: Any) -> list[Any]:
    """Returns the values of a column of pandas, Polars or PyArrow as objects of Python; those in SINGLE as NumPy's."""
    kind = str(getattr(column, "dtype", getattr(column, "type", ""))).lower().removesuffix("[pyarrow]")
    method = next(name for name in ("to_pylist", "to_list", "tolist") if hasattr(column, name))
    values: list[Any] = getattr(column, method)()
    if kind in SINGLE:
        return [None if is_missing(value) else SINGLE[kind](value) for value in values]
    return values


def is_missing(value: Any) -> bool:
    """Returns whether a value is None, NaN, NaT or NA."""
    return value is None or value is pd.NA or value is pd.NaT or (np.ndim(value) == 0 and bool(value != value))


def value_text(value: Any) -> str:
    """Returns the text of one value, empty if it is missing.

    Texts are without blanks around them, bools are True and False, and numbers as Python's repr. Whole numbers are without
    .0, also texts, since pandas writes it for integers with gaps. Dates and times are as 2024-01-05 00:00:00, in UTC, with a
    fraction of a second only if it is not 0.
    """
    if isinstance(value, str):
        text = value.strip(BLANKS)
        return text[:-2] if WHOLE.fullmatch(text) else text
    if is_missing(value):
        return ""
    if isinstance(value, (float, np.floating, Decimal)):
        # By way of the shortest text, so that a number is the same in fp32 and fp64; -0.0 is 0.
        return repr(float(str(value)) + 0.0).removesuffix(".0")
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape").strip(BLANKS)
    if isinstance(value, np.datetime64):
        value = pd.Timestamp(value)
    if isinstance(value, datetime.datetime):
        return str(value if value.tzinfo is None else value.astimezone(datetime.timezone.utc).replace(tzinfo=None))
    if isinstance(value, datetime.date):
        return str(datetime.datetime.combine(value, datetime.time()))
    return str(value).strip(BLANKS)


def field_texts(field: Any, separator: str) -> list[str]:
    """Returns the texts of the values in a field, without missing ones: those of a list, or the parts of a text between
    separators. An empty separator separates nothing."""
    if isinstance(field, str):
        values: Any = field.split(separator) if separator else [field]
    else:
        values = field if hasattr(field, "__iter__") and not isinstance(field, bytes) else [field]
    return [text for text in map(value_text, values) if text]
