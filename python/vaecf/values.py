"""Makes the texts of features, in one place for the tables of training and those of serving."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

BLANKS = " \t\n\r\f\v"
"""What is removed around texts, as vaecf_dist does (src/data/source/value_text.cpp)."""

NUMBER = re.compile(r"[+-]?(?=([0-9.]+))(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?")
"""A decimal number with a point or an exponent; its group begins with the digits before the exponent."""

_HOUR, _60 = "([01][0-9]|2[0-3])", "([0-5][0-9])"

TIME = re.compile(
    rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})(?:[ T]{_HOUR}:{_60}(?::{_60}(?:\.([0-9]{{1,9}}))?)?"
    rf"(?: ?(?:Z|UTC|GMT|([+-]){_HOUR}(?::?{_60})?))?)?"
)
"""A date or time with the year first, with or without a time zone."""

SEPARATOR = "|"
"""The default of data.source.users.value_separator and data.source.items.value_separator."""

SINGLE = {"float32": np.float32, "float": np.float32, "float16": np.float16, "halffloat": np.float16}
"""Types of numbers whose shortest text is not that of the same number in fp64, by the names of pandas, Polars and PyArrow."""


def python_values(column: Any) -> list[Any]:
    """Returns the values of a column of pandas, Polars or PyArrow as objects of Python; those in SINGLE as NumPy's."""
    kind = str(getattr(column, "dtype", getattr(column, "type", ""))).lower().removesuffix("[pyarrow]")
    if "time_unit='ns'" in kind:  # to_list() of Polars would omit the nanoseconds.
        column = column.to_arrow()
    method = next(name for name in ("to_pylist", "to_list", "tolist") if hasattr(column, name))
    values: list[Any] = getattr(column, method)()
    if kind in SINGLE:
        return [None if is_missing(value) else SINGLE[kind](value) for value in values]
    return values


def is_missing(value: Any) -> bool:
    """Returns whether a value is None, NaN, NaT or NA."""
    return value is None or value is pd.NA or value is pd.NaT or (np.ndim(value) == 0 and bool(value != value))


def value_text(value: Any) -> str:
    """Returns the text of one value, empty if it is missing; value_text of include/vaecf/data/value_text.hpp is the same.

    Texts are without blanks around them, bools are True and False. Numbers are as Python's repr, whole ones without .0, and
    times as 2024-01-05 00:00:00, in UTC, with a fraction of a second only if it is not 0: those of their types, and texts
    that are a time or a number with a point or an exponent. Durations are as str(datetime.timedelta), in microseconds.
    """
    if isinstance(value, str):
        text = value.strip(BLANKS)
        return _of_number(text) or _of_time(text) or text
    if is_missing(value):
        return ""
    if isinstance(value, (float, np.floating, Decimal)):
        # By way of the shortest text, so that a number is the same in fp32 and fp64.
        return _shortest(float(str(value)))
    if isinstance(value, bytes):
        return value_text(value.decode("utf-8", "surrogateescape"))
    if isinstance(value, np.datetime64):
        value = pd.Timestamp(value)
    if isinstance(value, np.timedelta64):
        value = pd.Timedelta(value)
    if isinstance(value, pd.Timedelta):
        value = value.to_pytimedelta()
    if isinstance(value, datetime.datetime):
        return str(value if value.tzinfo is None else value.astimezone(datetime.timezone.utc).replace(tzinfo=None))
    if isinstance(value, datetime.date):
        return str(datetime.datetime.combine(value, datetime.time()))
    return str(value).strip(BLANKS)


def plain_text(value: Any) -> str:
    """Returns the text of a title: as value_text(), but a text is what it is."""
    return value.strip(BLANKS) if isinstance(value, str) else value_text(value)


def _shortest(number: float) -> str:
    return repr(number + 0.0).removesuffix(".0")  # -0.0 is 0


def _of_number(text: str) -> str | None:
    """Returns the text of a decimal number with a point or an exponent; None for others, and beyond the range of fp64."""
    found = NUMBER.fullmatch(text)
    if found is None:
        return None
    number = float(text)
    is_beyond = math.isinf(number) or (number == 0 and found[1].strip("0.") != "")
    return None if is_beyond else _shortest(number)


def _of_time(text: str) -> str | None:
    """Returns the text of a time; None for others."""
    found = TIME.fullmatch(text)
    if found is None:
        return None
    date, hour, minute, second, fraction, sign, hours, minutes = found.groups()
    try:
        time = datetime.datetime.fromisoformat(f"{date} {hour or '00'}:{minute or '00'}:{second or '00'}")
        offset = datetime.timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        time = time + offset if sign == "-" else time - offset
    except (ValueError, OverflowError):
        return None
    fraction = (fraction or "").ljust(9, "0").removesuffix("000")
    return str(time) if fraction == "000000" else f"{time}.{fraction}"


def field_texts(field: Any, separator: str, text_of: Callable[[Any], str] = value_text) -> list[str]:
    """Returns the texts of the values in a field, without missing ones: those of a list, or the parts of a text between
    separators. An empty separator separates nothing. `text_of`: the text of one value."""
    if isinstance(field, str):
        values: Any = field.split(separator) if separator else [field]
    else:
        values = field if hasattr(field, "__iter__") and not isinstance(field, bytes) else [field]
    return [text for text in map(text_of, values) if text]
