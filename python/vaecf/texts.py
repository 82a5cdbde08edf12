"""Texts of ids and names, which may be any bytes: those that are not UTF-8 are surrogates in str (PEP 383); and paths."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar, cast

import pandas as pd
from pandas.api.types import is_object_dtype, is_string_dtype

Texts = TypeVar("Texts", str, "pd.Series[Any]", pd.DataFrame)


def _escape(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def escaped(texts: Texts) -> Texts:
    r"""Returns a text, or a Series or DataFrame of them, in which each byte that is not UTF-8 is written as \xNN.

    Pages and Parquet files must be UTF-8: `vaecf.escaped(table).to_parquet(file)`.

    >>> print(vaecf.escaped("caf\udce9"))
    caf\xe9
    """
    if isinstance(texts, pd.DataFrame):
        return cast(Texts, texts.apply(escaped))
    if isinstance(texts, pd.Series):
        return texts.map(_escape) if is_object_dtype(texts) or is_string_dtype(texts) else texts
    return cast(Texts, _escape(texts))


def local_path(path: str | Path) -> Path:
    """Returns a path as vaecf_dist reads those of a configuration: ~, alone or before a slash, is the variable HOME."""
    text, home = os.fspath(path), os.environ.get("HOME")
    return Path(home + text[1:]) if home and (text == "~" or text.startswith("~/")) else Path(text)
