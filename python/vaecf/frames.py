"""Reads DataFrames, Parquet and Feather files by columns, and writes them as the CSV that vaecf_dist prepare reads."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from .errors import InputError, install
from .files import kind_of, partition_values
from .ids import MAX_EXACT, column_names, index_advice
from .values import SEPARATOR, field_texts, plain_text, python_values, value_text

try:
    import narwhals.stable.v1 as nw
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv
    import pyarrow.parquet
except ImportError as error:
    raise InputError(
        f"DataFrames, Parquet and Feather files require PyArrow and narwhals ({error}); "
        f"install them with: {install('python')}"
    ) from None

ROWS = 1 << 17
"""The number of rows that are converted at a time."""

JOINT = "\x1f"
"""What separates the values of a field in the CSV: no text of a table contains this control character."""

TICKS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
"""Units of times per second."""


@dataclass(frozen=True)
class Frame:
    """A table in memory or in a file."""

    name: str
    """Its name in messages."""
    columns: Sequence[str]
    rows: Callable[[list[str]], Iterator[pa.Table]]
    """Yields the rows of the given columns in tables of at most ROWS rows."""
    table: Any = None
    """The DataFrame, if it is one."""


def frame_of(source: Any, name: str) -> Frame:
    """Returns the table of a DataFrame of pandas, Polars or PyArrow, or of a Parquet or Feather file.

    `name`: the argument, for messages. Throws InputError if a file cannot be read, and for other types.
    """
    if isinstance(source, (str, Path)):
        return _file(Path(source))
    if isinstance(source, pd.DataFrame):
        source = source.set_axis(column_names(source, name), axis=1)
    with _readable(name):
        frame = nw.from_native(source, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        raise InputError(
            f"{name} is of type {type(source).__name__}; give a DataFrame of pandas, Polars or PyArrow, or the path of a file"
        )

    def rows(columns: list[str]) -> Iterator[pa.Table]:
        for start in range(0, len(frame), ROWS):
            with _readable(name):
                part = frame[start : start + ROWS].select(columns)
                columns_of_part = [_arrow(part, column, f"{name}: column {column}") for column in columns]
            yield pa.table(columns_of_part, columns)

    return Frame(name, column_names(frame, name), rows, source)


@contextlib.contextmanager
def _readable(name: object) -> Iterator[None]:
    """Throws InputError for the exceptions of a library that reads a table. `name`: that of the table."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # pylint: disable=broad-exception-caught # Each library has classes of its own.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{name}: cannot be read: {reason}") from error


def _arrow(part: Any, column: str, name: str) -> pa.Array | pa.ChunkedArray:
    """Returns a column of a DataFrame of narwhals; one of objects of several types or of a type that Arrow does not have,
    such as those of pandas.cut, as texts."""
    with contextlib.suppress(pa.ArrowException):
        values = part.select(column).to_arrow()[column]
        if not isinstance(getattr(values.type, "value_type", values.type), pa.BaseExtensionType):
            return values
    objects = part[column].to_list()
    if any(np.ndim(value) > 0 for value in objects):
        raise InputError(f"{name}: some values are lists and others are not; make all of them lists")
    texts = [value if isinstance(value, str) else value_text(value) or None for value in objects]
    return pa.array(texts, pa.string())


def _file(path: Path) -> Frame:
    """Returns the table in a Parquet or Feather file."""
    is_parquet = kind_of(path) == "parquet"
    with _readable(path):
        if is_parquet:
            names = pyarrow.parquet.read_schema(path).names
        else:
            names = pa.ipc.open_file(pa.memory_map(str(path))).schema.names
    folders = {key: value for key, value in partition_values(path).items() if key not in names}

    def with_folders(read: Callable[[list[str]], Iterator[pa.Table]], columns: list[str]) -> Iterator[pa.Table]:
        for table in read([column for column in columns if column not in folders] or names[:1]):
            for key, value in folders.items():
                table = table.append_column(key, pa.array([value] * table.num_rows, pa.string()))
            yield table.select(columns)

    def parquet(columns: list[str]) -> Iterator[pa.Table]:
        # A buffer per column instead of whole columns of a row group, which may be the whole file.
        with _readable(path), pyarrow.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            for batch in file.iter_batches(ROWS, columns=columns):
                yield pa.Table.from_batches([batch]).select(columns)

    def feather(columns: list[str]) -> Iterator[pa.Table]:
        options = pa.ipc.IpcReadOptions(included_fields=[names.index(column) for column in columns])
        with _readable(path), pa.memory_map(str(path)) as memory:
            file = pa.ipc.open_file(memory, options=options)
            for index in range(file.num_record_batches):
                batch = pa.Table.from_batches([file.get_batch(index)]).select(columns)
                yield from (batch.slice(start, ROWS) for start in range(0, batch.num_rows, ROWS))

    return Frame(str(path), [*names, *folders], partial(with_folders, parquet if is_parquet else feather))


Convert = Callable[[pa.ChunkedArray, str], pa.ChunkedArray]
"""The conversion of a column to what is written as CSV; the text is the name of the column in messages."""


def write_csv(frames: Sequence[Frame], columns: Sequence[tuple[str, str, Convert]], to: IO[bytes]) -> None:
    """Writes columns of all tables as one CSV file: for each its name, the one in the header, and its conversion.

    Throws InputError if a table cannot be read, or if a column cannot be converted.
    """
    header = io.StringIO()
    csv.writer(header, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(title for _, title, _ in columns)
    to.write(header.getvalue().encode())
    options = pyarrow.csv.WriteOptions(include_header=False)
    names = list(dict.fromkeys(name for name, _, _ in columns))
    for frame in frames:
        for rows in frame.rows(names):
            converted = [convert(rows[name], f"{frame.name}: column {name}") for name, _, convert in columns]
            pyarrow.csv.write_csv(pa.table(converted, list(map(str, range(len(columns))))), to, options)


def require_columns(frames: Sequence[Frame], columns: Sequence[str]) -> None:
    """Throws InputError if a table lacks a column, or has it twice."""
    for frame in frames:
        for name in columns:
            if name not in frame.columns:
                raise InputError(
                    f"{frame.name}: there is no column {name!r}; the columns are {', '.join(frame.columns)}"
                    + index_advice(name, frame.table)
                )
            if frame.columns.count(name) > 1:
                raise InputError(f"{frame.name}: two columns are called {name!r}; rename or drop one")


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the column with values instead of codes, and with null instead of NaN."""
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], column.type.value_type)
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return column


def _is_text(kind: pa.DataType) -> bool:
    """Returns whether a type is text, or has no values but null."""
    return str(kind) in ("string", "large_string", "string_view", "null")


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns text in a type that PyArrow writes as CSV."""
    return column.cast(pa.large_string()) if str(column.type) == "string_view" else column


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Returns floats as integers, if all are whole numbers and small enough to be exact."""
    try:
        whole = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return None if pc.any(pc.greater(pc.abs(whole), MAX_EXACT)).as_py() else whole


def ids(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Converts ids: integers, text, or floats that are whole numbers, which pandas makes of integers with gaps."""
    column = _plain(column)
    if pa.types.is_integer(column.type):
        return column
    if _is_text(column.type):
        return _text(column)
    whole = _whole(column) if pa.types.is_floating(column.type) else None
    if whole is not None:
        return whole
    if pa.types.is_floating(column.type) and pc.all(pc.equal(pc.round(column), column)).as_py():
        raise InputError(
            f"{name}: floating-point numbers above 2^53 are not exact; read the column of ids as integers or texts"
        )
    raise InputError(
        f"{name}: ids must be integers or text, got {column.type}; convert them, for example by astype(str)"
    )


def numbers(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Converts ratings and counts; text is left as it is."""
    column = _plain(column)
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8())
    if pa.types.is_decimal(column.type):
        return column.cast(pa.float64())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or _is_text(column.type):
        return _text(column)
    raise InputError(f"{name}: ratings must be numbers, got {column.type}; convert them")


def times(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Converts times to seconds since 1970; those without a time zone are in UTC. Numbers and text are left as they are."""
    column = _plain(column)
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or _is_text(column.type):
        return _text(column)
    if not pa.types.is_timestamp(column.type):
        raise InputError(f"{name}: times must be dates or numbers, got {column.type}; convert them")
    per_second = TICKS[column.type.unit]
    ticks = column.cast(pa.int64())
    seconds = pc.divide(ticks, per_second)
    if pc.all(pc.equal(pc.multiply(seconds, per_second), ticks)).as_py() is False:
        return pc.divide(ticks.cast(pa.float64(), safe=False), float(per_second))
    return seconds


def titles(column: pa.ChunkedArray, name: str) -> pa.Array:
    """Converts titles."""
    return _joined(column, name, lambda field: field_texts(field, "", plain_text), SEPARATOR)


def features(separator: str) -> Convert:
    """Returns the conversion of features, whose values JOINT separates afterwards. `separator`: that in their texts."""

    def convert(column: pa.ChunkedArray, name: str) -> pa.Array:
        return _joined(column, name, lambda field: field_texts(field, separator), JOINT)

    return convert


def _joined(column: pa.ChunkedArray, name: str, texts_of: Callable[[Any], list[str]], joint: str) -> pa.Array:
    """Converts fields to the texts of their values, between which is `joint`."""
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    is_list = any(check(column.type) for check in kinds)
    if pa.types.is_nested(column.type) and not is_list:
        raise InputError(f"{name}: values must be text, numbers or lists of text, got {column.type}; convert them")

    def joined(field: Any) -> str:
        texts = texts_of(field)
        if any(JOINT in text for text in texts):
            raise InputError(f"{name}: {field!r} contains the control character U+001F; remove it")
        return joint.join(texts)

    fields = python_values(column)
    try:
        if is_list:
            return pa.array(map(joined, fields), pa.large_string())
        texts = {field: joined(field) for field in set(fields)}
        return pa.array([texts[field] for field in fields], pa.large_string())
    except UnicodeEncodeError:
        raise InputError(f"{name}: some values are bytes that are not UTF-8; decode them to texts") from None
