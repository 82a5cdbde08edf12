"""Finds out which files a path stands for and what they contain, without reading them."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from .texts import local_path

KINDS = {b"PAR1": "parquet", b"ARROW1": "feather", b"FEA1": "feather"}
"""The first bytes of files that are no text."""

JSON_LINES = (".jsonl", ".ndjson", ".json")


def file_version(path: str | Path) -> tuple[int, int, int] | None:
    """Returns what changes when a file is replaced: its inode, size and time; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def kind_of(path: Path) -> str:
    """Returns parquet or feather, by the first bytes of a file; json for JSON lines, and else text."""
    start = b""
    if path.is_file():
        with open(path, "rb") as file:
            start = file.read(64)
    for first, kind in KINDS.items():
        if start.startswith(first):
            return kind
    # The first bytes of a compressed file are not those of its text.
    is_json = start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") or any(end in JSON_LINES for end in path.suffixes)
    return "json" if is_json else "text"


def is_binary(source: Any) -> bool:
    """Returns whether a source is the path of a Parquet or Feather file."""
    return isinstance(source, (str, Path)) and kind_of(Path(source)) in KINDS.values()


def files_of(path: str | Path) -> list[Path]:
    """Returns the files for which a path stands, in the order in which vaecf_dist reads them.

    They are the files in a folder, without hidden ones and those whose names begin with _, or those that match a pattern.
    """
    path = Path(path)
    if path.is_dir():
        return _in_folder(path, Path.is_file)
    if not path.exists() and any(mark in str(path) for mark in "*?["):
        return sorted(map(Path, glob.glob(str(path))), key=_order)
    return [path]


def _in_folder(path: Path, wanted: Callable[[Path], bool]) -> list[Path]:
    """Returns the wanted files or folders in a folder, without hidden ones and those whose names begin with _."""
    return sorted((each for each in path.iterdir() if each.name[0] not in "._" and wanted(each)), key=_order)


def _partitions(path: Path) -> list[Path]:
    """Returns the files in a folder and in its folders KEY=VALUE, as Hive and Spark write them."""
    if not path.is_dir():
        return files_of(path)
    folders = _in_folder(path, lambda each: each.is_dir() and "=" in each.name)
    return [*files_of(path), *(file for folder in folders for file in _partitions(folder))]


def partition_values(path: Path) -> dict[str, str | None]:
    """Returns the columns of a file that the names of its folders are, KEY=VALUE, with texts as values."""
    pairs = (unquote(name).partition("=") for name in path.parent.parts if "=" in name)
    return {key: None if value == "__HIVE_DEFAULT_PARTITION__" else value for key, _, value in pairs if key}


def parts_of(source: Any) -> list[Any]:
    """Returns the parts of a source or table: DataFrames and files.

    Folders, with their folders KEY=VALUE, and patterns stand for the Parquet or Feather files in them, if there are any; else
    they are parts themselves.
    """
    parts: list[Any] = []
    for part in source if isinstance(source, (list, tuple)) else [source]:
        part = local_path(part) if isinstance(part, (str, Path)) else part
        files = _partitions(part) if isinstance(part, Path) else []
        parts += [file for file in files if is_binary(file)] or [part]
    return parts


def _order(path: Path) -> tuple[str, str]:
    """Returns a key for sorting, by which digits compare as numbers: the rule of src/data/source/source_files.cpp."""

    def number(digits: re.Match[str]) -> str:
        text = digits[0].lstrip("0")
        return f"0{chr(len(text))}{text}"

    return re.sub("[0-9]+", number, str(path)), str(path)
