"""Puts messages of vaecf_dist into the words of vaecf.train, vaecf.prepare and `vaecf prepare`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_OF_PREPARE = ("duplicates", "min_rating", "split", "dates", "validation_users", "test_users")
_OF_TABLES = ("item_features", "user_features")
_OF_FILTERS = ("min_user_items", "min_item_users", "seed")

ARGUMENTS = {
    "data.file": "file",
    "data.source.path": "source",
    "data.source.users.path": "users",
    "data.source.items.path": "items",
    "data.source.items.title_column": "title",
    **{f"data.source.{name}_column": name for name in ("user", "item", "rating", "time")},
    **{f"data.prepare.{name}": name for name in _OF_PREPARE + _OF_FILTERS + _OF_TABLES},
}
"""The argument of vaecf.prepare for each key that has one."""

TRAINING = {
    "name": "name",
    "model.type": "model",
    "train.epochs": "epochs",
    "train.batch_size": "batch_size",
    "train.optimizer.learning_rate": "learning_rate",
    "train.seed": "seed",
    "device": "device",
    "train.precision": "precision",
    "run.directory": "directory",
}
"""The argument of vaecf.train for each key that has one."""

_OPTION = re.compile(rf"(?<![\w.-])({'|'.join(ARGUMENTS.values())})=(?=([^\s,;:)]?))")
_FORMAT = re.compile(r"data\.source\.format: \w+(?= with| has)")

_ALL_KEYS = "; the attribute config of a vaecf.Run has all keys"

_PHRASES = (
    # The program names the option that set a key before its message, which mostly names the key.
    (re.compile(r"--set ([\w.]+)=.*?: (?=\1(?![\w.]))", re.DOTALL), ""),
    (re.compile(r"--set ([\w.]+)=(?:\"(?:[^\"\\]|\\.)*\"|.)*?: ", re.DOTALL), r"\1: "),
    (re.compile("; --help-config lists all keys"), _ALL_KEYS),
    (re.compile("`vaecf_dist prepare`(?: or `vaecf_dist synthesize`)?"), "vaecf.prepare"),
    (re.compile(r"--(force|replace|strict)(?![-\w])"), r"\1=True"),
    (re.compile("pass --train to skip the test, or "), ""),
    (re.compile("continue with --resume, or use another name or run.directory"), "or use another name= or directory="),
    (re.compile(", or start from scratch with --resume never"), ""),
    (re.compile(r"--(start-from|per-user)(?![-\w])"), lambda found: found[1].replace("-", "_") + "="),
    (re.compile(r" \(mpirun [^)]*\)"), ""),
)

_WITH_VALUES = ("data.file", "data.source.path", "data.prepare.split", "model.type", "device", "train.precision")
"""The keys that messages name with a value, as KEY: VALUE; after others, and before "only", there is a sentence."""

_COLUMNS = "user=, item=, rating= or time="
_OF_STDIN = (
    ("the file contains no ratings; check data.source.format, path, separator, header and columns", "contains no rows; give events"),
    (
        "the format is probably wrong; check data.source.format, path, separator, header and columns",
        f"{_COLUMNS} probably names another column; correct it",
    ),
)
"""What is said of tables, whose text this package has written."""
_OF_SOURCES = (
    ("check the paths in data.source", "check source=, items= and users="),
    (
        "check data.source.format, path, separator, header and columns",
        "check the columns, and data.source.separator and data.source.header in settings=",
    ),
    ("which data.source names", f"which {_COLUMNS} names"),
)
_LAYOUT = re.compile(r"check column names, separator and header in (data\.source(?:\.users|\.items)?)(?![\w.])")
_PATTERN = re.compile(r', or to a pattern such as "[^"]*"')

_ISSUE = re.compile(r"([0-9]+) (dropped|kept): ([^\n]*)(?:\n  ([^\n]*))?")


def _named(text: str, arguments: Mapping[str, str]) -> str:
    """Returns a message with arguments of Python instead of options and of keys, by the argument of each key."""
    for phrase, other in _PHRASES:
        text = phrase.sub(other, text)
    keys = "|".join(re.escape(key) for key, argument in arguments.items() if key != argument)
    key_in_text = re.compile(rf"(?<![\w.])({keys})(?![\w]|\.\w)(: (?=[\w/~-])(?!only ))?")

    def argument(found: re.Match[str]) -> str:
        return f"{arguments[found[1]]}={'' if found[1] in _WITH_VALUES else found[2] or ''}"

    return key_in_text.sub(argument, text)


def training_words(text: str, written: Path, start: Path | None) -> str:
    """Returns a message with arguments of vaecf.train instead of keys and options. `written`: the configuration that was
    written for the program, a copy of `start`, if there is one."""
    where = re.compile(rf"{re.escape(str(written))}((?::[0-9]+)?: )?")
    return _named(where.sub(lambda found: f"{start}{found[1] or ''}" if start else "", text), TRAINING)


def python_words(text: str, folder: Path) -> str:
    """Returns a message with arguments of vaecf.prepare instead of keys and options, and with rows of tables, from 0, instead
    of lines of what was written for the program to its standard input or the folder."""
    events = ("stdin:", *(f"{folder}/{name}.csv:" for name in ("train", "validation", "test")))
    for phrase, other in (*(_OF_STDIN if text.startswith(events) else ()), *_OF_SOURCES):
        text = text.replace(phrase, other)
    text = _LAYOUT.sub(r"check the columns, and \1.separator and \1.header in settings=", text)
    text = _named(_FORMAT.sub("this source", _PATTERN.sub("", text.replace(f"{folder}/config.yaml: ", ""))), ARGUMENTS)

    def row(found: re.Match[str]) -> str:
        name, line = (found[1] or "source").replace("train", "source"), found[2]
        return name if line is None else f"{name}: row {int(line) - 2}" if int(line) > 1 else f"{name}: its header"

    return re.sub(rf"(?:\bstdin|{re.escape(str(folder))}/(users|items|train|validation|test)\.csv)(?::([0-9]+))?(?![\w.])", row, text)


def option_words(text: str) -> str:
    """Returns a message for Python with the options of `vaecf prepare`."""

    def option(found: re.Match[str]) -> str:
        name = "FILE" if found[1] == "source" else f"--{found[1].replace('_', '-')}"
        return f"{name} " if found[2] else name

    text = text.replace("in settings=", "with --set").replace(_ALL_KEYS, "; vaecf_dist --help-config lists all keys")
    return _OPTION.sub(option, re.sub(r"\b(force|replace|strict)=True", r"--\1", text))


def combined(warnings: Sequence[str]) -> list[str]:
    """Returns the warnings of a program with those about lines of the source as one table, if there are several."""
    issues = [found for text in warnings if (found := _ISSUE.match(text))]
    if len(issues) < 2:
        return list(warnings)
    width = max(len(found[1]) for found in issues)
    rows = [
        f"{found[1]:>{width}} {found[2]}: {found[3]}" + (f", first at {found[4]}" if found[4] else "")
        for found in issues
    ]
    others = [text for text in warnings if not _ISSUE.match(text)]
    return [*others, "\n  ".join(["some rows are dropped or unusual:", *rows])]
