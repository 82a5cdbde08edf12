"""Prepares datasets from DataFrames and from files of Parquet, Feather, CSV and JSON lines."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import yaml

from .dataset import Dataset
from .errors import InputError, RunError
from .files import files_of, is_binary, kind_of, parts_of
from .program import WARNING, run_program, settings_arguments, warnings_among, warnings_of
from .texts import local_path
from .values import SEPARATOR
from .wording import combined, python_words
from .yaml_files import nested

TEXT_ID = re.compile(r"(?:stdin|\S*/(?:train|validation|test)\.csv):[0-9]+: (user|item) id .* is not an integer[;,]", re.DOTALL)
"""The warning about a text in a column of other ids."""

FEATURES = {"users": "data.prepare.user_features", "items": "data.prepare.item_features"}
"""The keys of the columns of tables that become features."""

TEXT_KEYS = ("format", "file", "separator", "header", "quotes")
"""The keys that say how a text file is read."""

MARK = "# Written by prepare, which replaces this file.\n"
"""The first line of a configuration beside a dataset; `vaecf_dist prepare --file` writes and replaces it, too."""


def prepare(
    source: Any,
    *,
    file: str | Path,
    user: str | int | None = None,
    item: str | int | None = None,
    rating: str | int | None = None,
    time: str | int | None = None,
    validation: Any = None,
    test: Any = None,
    items: Any = None,
    users: Any = None,
    title: str | int | None = None,
    item_features: str | int | Sequence[str | int] | None = None,
    user_features: str | int | Sequence[str | int] | None = None,
    duplicates: str | None = None,
    min_rating: float | None = None,
    split: str | None = None,
    dates: Sequence[Any] | None = None,
    validation_users: int | None = None,
    test_users: int | None = None,
    min_user_items: int | None = None,
    min_item_users: int | None = None,
    seed: int | None = None,
    program: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    strict: bool = False,
    force: bool = False,
    replace: bool = False,
    log: Callable[[str], object] | None = None,
    verbose: bool = False,
) -> Dataset:
    """Prepares a dataset from events, a line per interaction of a user with an item, and returns it.

    `source`: a DataFrame of pandas, Polars or PyArrow, the path of a Parquet or Feather file, a folder of them or a
    pattern, or a list of these; or the path of a CSV file or of JSON lines, their folder or a pattern, which vaecf_dist
    reads itself. Files of a folder are read in the order of the numbers in their names. `file`: the dataset to write. A dataset made
    before is replaced, and NAME.yaml beside it is a configuration for the command line. `user`, `item`, `rating` and
    `time` are columns; of text files, `user` and `item` are by default those with usual names, such as user_id. `validation`
    and `test`: tables of the events to hold out, with the same columns, for a split of your own; `source` has then the
    events to train on. `items`
    and `users`: tables of the same kinds for items and users, for the column `title` and the columns `item_features` and
    `user_features`. Their columns of ids have the names `item` and `user`; if these are left out, they are the first ones.
    `duplicates` to `seed` are keys of data.prepare, and `settings` has further keys of the configuration by dotted name.
    `strict`, `force` and `replace` are the options of `vaecf_dist prepare`. `log` is called at the end with each line of
    the program's log, which is more detailed with `verbose`.

    Blocks until the end. Throws InputError for wrong arguments, columns or data, and RunError if the program fails; then
    there is no new dataset.

    >>> vaecf.prepare(events, user="user", item="item", time="time", items=items, title="title", split="time",
    ...               dates=["2026-02-20", "2026-03-05"], file="data/weeks.h5")
    Dataset('data/weeks.h5'): 60 users, 20 items
    >>> late = events["time"] > "2026-02-20"
    >>> bool(vaecf.prepare(events[~late], test=events[late], user="user", item="item", file="data/split.h5").test.held_out.sum() == late.sum())
    True
    >>> data = vaecf.prepare(events, user="user", item="item", items=items, item_features="genre", users=users,
    ...                      user_features=["age"], file="data/features.h5")
    >>> data.attributes["user_features_of"], data.attributes["item_features_of"]
    ('age', 'genre')
    """
    path = local_path(file)
    config = path.with_suffix(".yaml")
    if config == path:
        raise InputError(f"{path}: a dataset cannot end in .yaml; choose a name such as {path.stem}.h5")
    if config.exists() and not config.read_bytes().startswith(MARK.encode()):
        raise InputError(f"{config} was not written by prepare; choose another file=, or move it away")
    if title is not None and items is None:
        raise InputError("title= is a column of the table items=; give both")
    given = {
        "item_features": None if item_features is None else _names(item_features),
        "user_features": None if user_features is None else _names(user_features),
        "duplicates": duplicates,
        "min_rating": min_rating,
        "split": split,
        "dates": None if dates is None else [_date(date) for date in dates],
        "validation_users": validation_users,
        "test_users": test_users,
        "min_user_items": min_user_items,
        "min_item_users": min_item_users,
        "seed": seed,
    }
    columns = {
        name: str(column)
        for name, column in (("user", user), ("item", item), ("rating", rating), ("time", time))
        if column is not None
    }
    parts = parts_of(source)
    if not parts:
        raise InputError("the source is an empty list; give DataFrames or files")
    own = {name: parts_of(table) for name, table in (("validation", validation), ("test", test)) if table is not None}
    if own and split not in (None, "given"):
        raise InputError(f"split={split!r} divides the events itself; omit it, or validation= and test=")
    if own:
        given["split"] = "given"
    values: dict[str, Any] = {"name": path.stem, "data.file": str(path), **_location(parts)}
    values.update((f"data.source.{name}_column", column) for name, column in columns.items())
    values.update((f"data.prepare.{key}", value) for key, value in given.items() if value is not None)
    for key, value in (settings or {}).items():
        if key in values and not key.startswith("data.source."):
            raise InputError(f"settings: {key} is also given by an argument of prepare(); give it once")
        values[key] = value

    converted = values["data.source.path"] == "-" or not all(_is_text(table) for table in (items, users) if table is not None)
    if converted and (user is None or item is None):
        raise InputError("user= and item= may be left out for text files alone; name the columns of ids")
    if own and values["data.source.path"] != "-":
        raise InputError(
            "validation= and test= are DataFrames, Parquet or Feather files beside a source of these; of text files train.*, "
            "validation.* and test.* in one folder, split='given' reads all"
        )
    if not own and values["data.source.path"] == "-" and values.get("data.prepare.split") == "given":
        raise InputError(
            "split='given' reads the parts train.*, validation.* and test.*, which must be text files; "
            "give source= their folder or the train file, or use another split, or give tables as validation= and test="
        )
    unused = []
    if values["data.source.path"] == "-":
        unused += _without_text_keys("data.source", "source", values, settings or {})
    folder = path.parent / f".{path.stem}.tables"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: this file cannot be written: {reason}; choose another file=") from None
    earlier = _temporaries(path)
    try:
        written: dict[str, Any] = {}  # where and how the program finds tables that are written for it
        for name, one, table in (("users", "user", users), ("items", "item", items)):
            if table is None:
                continue
            if not _used_columns(name, title, values):
                where = "" if name == "users" else "title= or "
                unused.append(f"{name}= has no effect without {where}{one}_features=")
                continue
            if one in columns:
                values.setdefault(f"data.source.{name}.{one}_column", columns[one])
            if title is not None and name == "items":
                values["data.source.items.title_column"] = str(title)
            tables = parts_of(table)
            if _is_text(table):
                values[f"data.source.{name}.path"] = str(tables[0])
            else:
                unused += _without_text_keys(f"data.source.{name}", name, values, settings or {})
                written.update(_table(name, one, tables, values, folder))
        feed = None
        if values["data.source.path"] == "-":
            feed = _writer("source", parts, columns)
            if own:
                writers = {"train": feed, **{name: _writer(name, each, columns) for name, each in own.items()}}
                feed = None
                for name, write in writers.items():
                    with open(folder / f"{name}.csv", "wb") as to:
                        write(to)
                written["data.source.path"] = str(folder / "train.csv")
            written.update((f"data.source.{name}_column", _heading(column)) for name, column in columns.items())
        (folder / "config.yaml").write_text("{}\n", encoding="utf-8")
        arguments = settings_arguments({key: _text(value) for key, value in {**values, **written}.items()})
        detail = {"--quiet": log is None, "--verbose": log is not None and verbose}
        flags = {"--strict": strict, "--force": force, "--replace": replace, **detail}
        arguments += [flag for flag, wanted in flags.items() if wanted]
        try:
            _, said = run_program(["prepare", str(folder / "config.yaml"), *arguments], program=program, feed=feed)
        except (InputError, RunError) as error:
            _tell(log, error.log, folder)
            for text in combined(error.warnings):
                warnings.warn(python_words(text, folder), stacklevel=2)
            raise type(error)(python_words(str(error), folder)) from None
    except BaseException:
        for left in _temporaries(path) - earlier:  # of a program that was killed
            left.unlink(missing_ok=True)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    config.write_text(MARK + _yaml(_from_any_folder(values)), encoding="utf-8")
    _tell(log, said, folder)
    if log is not None:
        log(f"wrote {config}, with which the other commands work: vaecf_dist {config}")
    told = warnings_of(said) if log is None else warnings_among(said)
    # A column of text has ids of text; in a text file, these may be the header.
    shown = [text for text in told if not (values["data.source.path"] == "-" and TEXT_ID.match(text))]
    for text in [*unused, *combined(shown)]:
        warnings.warn(python_words(text, folder), stacklevel=2)
    return Dataset(path)


def _tell(log: Callable[[str], object] | None, said: str, folder: Path) -> None:
    """Calls `log` with each line of a log of the program that belongs to no warning and is not the error."""
    for line in WARNING.sub("", said).split("\n"):
        if log is not None and line and not line.startswith("vaecf_dist: "):
            log(python_words(line, folder))


def _from_any_folder(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns keys with absolute paths, with which a configuration works in any folder."""
    paths = {"data.file", *(f"data.source.{part}path" for part in ("", "users.", "items."))}
    return {key: os.path.abspath(value) if key in paths and value not in ("-", None) else value for key, value in values.items()}


def _is_text(table: Any) -> bool:
    """Returns whether a table of users or items is a text file, a folder of these or a pattern, which the program reads."""
    return isinstance(table, (str, Path)) and not is_binary(parts_of(table)[0])


def _location(parts: Sequence[Any]) -> dict[str, Any]:
    """Returns the keys of data.source that say where the program finds events: in a file, or in its standard input."""
    texts = [Path(part) for part in parts if isinstance(part, (str, Path)) and not is_binary(part)]
    if not texts:
        return {"data.source.format": "delimited", "data.source.path": "-"}
    if len(parts) > 1:
        raise InputError(
            f"{texts[0]}: text files are read by vaecf_dist, which takes one path; "
            "give the folder that contains them and no other files"
        )
    first = next(iter(files_of(texts[0])), texts[0])
    values: dict[str, Any] = {"data.source.format": "delimited", "data.source.path": str(texts[0])}
    if kind_of(first) == "json":
        values["data.source.format"] = "json_lines"
    elif ".tsv" in first.suffixes:
        values["data.source.separator"] = "\t"
    return values


def _without_text_keys(section: str, name: str, values: dict[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Takes keys that say how a text file is read from the values of a table that is none, and returns a warning for each
    that is set. `name`: the argument of the table."""
    ignored = [key for key in (f"{section}.{each}" for each in TEXT_KEYS) if key in settings]
    for key in ignored:
        del values[key]
    values.setdefault("data.source.format", "delimited")
    return [f"{key} in settings= has no effect, since {name}= is not a text file; remove it" for key in ignored]


def _heading(column: str) -> str:
    """Returns the name of a column in what is written for the program, which takes numbers for positions."""
    return f"column {column}" if column.isdigit() else column


def _writer(name: str, parts: Sequence[Any], columns: Mapping[str, str]) -> Callable[[IO[bytes]], None]:
    """Returns a function that writes the events of all parts as CSV. `name`: the argument, for messages."""
    from . import frames  # pylint: disable=import-outside-toplevel # It imports PyArrow.

    kinds = {"user": frames.ids, "item": frames.ids, "rating": frames.numbers, "time": frames.times}
    tables = [frames.frame_of(part, name) for part in parts]
    frames.require_columns(tables, list(columns.values()))
    wanted = {column: (column, _heading(column), kinds[of]) for of, column in columns.items()}
    return lambda to: frames.write_csv(tables, list(wanted.values()), to)


def _used_columns(name: str, title: Any, values: Mapping[str, Any]) -> list[str]:
    """Returns the columns of a table of users or items that are used. `values`: all keys."""
    titles = values.get(f"data.source.{name}.title_column", title if name == "items" else None)
    return _names(titles) + _names(values.get(FEATURES[name]))


def _table(name: str, one: str, parts: Sequence[Any], values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Writes the columns of a table of users or items that are used to a folder as CSV, and returns the keys of data.source
    with which the program reads them. `values`: all keys."""
    from . import frames  # pylint: disable=import-outside-toplevel # It imports PyArrow.

    section = f"data.source.{name}"
    ids, separator = str(values[f"{section}.{one}_column"]), str(values.get(f"{section}.value_separator", SEPARATOR))
    features = _names(values.get(FEATURES[name]))
    titles = _names(values.get(f"{section}.title_column"))
    columns: list[tuple[str, str, frames.Convert]] = [(ids, f"{one} of the line", frames.ids)]
    columns += [(title, "title of the line", frames.titles) for title in titles]
    columns += [(feature, feature, frames.features(separator)) for feature in features]
    tables = [frames.frame_of(part, name) for part in parts]
    frames.require_columns(tables, [column for column, _, _ in columns])
    file = folder / f"{name}.csv"
    with open(file, "wb") as to:
        frames.write_csv(tables, columns, to)
    keys = {"path": str(file), "separator": ",", f"{one}_column": columns[0][1]}
    if titles:
        keys["title_column"] = "title of the line"
    if features:
        keys["value_separator"] = frames.JOINT
    return {f"{section}.{key}": value for key, value in keys.items()}


def _names(names: Any) -> list[str]:
    """Returns none, one or several names of columns as a list."""
    return [] if names is None else [str(name) for name in (names if isinstance(names, (list, tuple)) else [names])]


def _temporaries(path: Path) -> set[Path]:
    """Returns the files in which programs at work write a dataset."""
    return {file for file in path.parent.glob("*") if file.name.startswith(f"{path.name}.tmp-")}


def _date(date: Any) -> str:
    """Returns a date as text."""
    return str(date.isoformat() if hasattr(date, "isoformat") else date)


def _text(value: Any) -> str:
    """Returns a value as YAML on one line; those of NumPy as numbers."""
    return json.dumps(
        value, default=lambda other: other.tolist() if hasattr(other, "tolist") else str(other), ensure_ascii=False
    )


def _yaml(values: Mapping[str, Any]) -> str:
    """Returns dotted keys as nested YAML."""
    config = nested({key: json.loads(_text(value)) for key, value in values.items()})
    return str(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
