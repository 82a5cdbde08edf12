"""Puts messages of `vaecf_dist prepare` into the words of vaecf.prepare and `vaecf prepare`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_OF_PREPARE = ("duplicates", "min_rating", "split", "dates", "validation_users", "test_users")
_OF_FILTERS = ("min_user_items", "min_item_users", "seed")

ARGUMENTS = {
    "data.file": "file",
    "data.source.path": "source",
    "data.source.users.path": "users",
    "data.source.items.path": "items",
    "data.source.items.title_column": "title",
    **{f"data.source.{name}_column": name for name in ("user", "item", "rating", "time")},
    **{f"data.prepare.{name}": name for name in _OF_PREPARE + _OF_FILTERS},
}
"""The argument of vaecf.prepare for each key that has one."""

_KEYS = "|".join(map(re.escape, ARGUMENTS))
_KEY = re.compile(rf"(?<![\w.])({_KEYS})(?![\w]|\.\w)(?:: (?=[\w-]))?")
_OPTION = re.compile(rf"(?<![\w.-])({'|'.join(ARGUMENTS.values())})=(?=([^\s,;)]?))")

# The program names the option that set a key before its message, which names the key.
_SET = re.compile(rf"--set ({_KEYS})=.*?: (?=\1(?![\w.]))", re.DOTALL)
_FORMAT = re.compile(r"data\.source\.format: \w+(?= with| has)")

_PHRASES = (
    ("check the paths in data.source", "check source=, items= and users="),
    ("; choose another file, or pass --replace to overwrite it", "; choose another file=, or move it away"),
    (
        "check data.source.format, path, separator, header and columns",
        "check the columns, and data.source.separator and data.source.header in settings=",
    ),
)
_PATTERN = re.compile(r', or to a pattern such as "[^"]*"')

_ISSUE = re.compile(r"([0-9]+) (dropped|kept): ([^\n]*)(?:\n  ([^\n]*))?")


def python_words(text: str, folder: Path) -> str:
    """Returns a message with arguments of vaecf.prepare instead of keys, and with rows of tables, from 0, instead of lines
    of what was written for the program to its standard input or the folder."""
    for phrase, other in _PHRASES:
        text = text.replace(phrase, other)
    text = _FORMAT.sub("this source", _SET.sub("", text))
    text = _KEY.sub(lambda found: f"{ARGUMENTS[found[1]]}=", _PATTERN.sub("", text))

    def row(found: re.Match[str]) -> str:
        name, line = found[1] or "source", found[2]
        return name if line is None else f"{name}: row {int(line) - 2}" if int(line) > 1 else f"{name}: its header"

    return re.sub(rf"(?:\bstdin|{re.escape(str(folder))}/(users|items)\.csv)(?::([0-9]+))?(?![\w.])", row, text)


def option_words(text: str) -> str:
    """Returns a message for Python with the options of `vaecf prepare`."""

    def option(found: re.Match[str]) -> str:
        name = "FILE" if found[1] == "source" else f"--{found[1].replace('_', '-')}"
        return f"{name} " if found[2] else name

    return _OPTION.sub(option, text.replace("in settings=", "with --set"))


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
