"""Reads the datasets that vaecf_dist prepares or synthesizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import scipy.sparse as sp

from . import __version__
from .errors import InputError
from .files import file_version
from .texts import local_path


FORMAT = 3  # format_version of datasets; without it, a file is of this one


def open_hdf5(path: str | Path) -> h5py.File:
    """Opens an HDF5 file for reading. Throws InputError if that is not possible."""
    try:
        return h5py.File(path, "r")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read as HDF5: {error}") from None


def read_attributes(file: h5py.File) -> dict[str, Any]:
    """Returns the attributes of a file, with texts as str and numbers as those of Python.

    Bytes that are not UTF-8 are backslash escapes.
    """
    values: dict[str, Any] = {}
    for name, value in file.attrs.items():
        if isinstance(value, bytes):
            values[name] = value.decode("utf-8", "backslashreplace")
        else:
            values[name] = value.item() if isinstance(value, np.generic) else value
    return values


def read_values(group: h5py.Group, name: str) -> np.ndarray[Any, Any]:
    """Returns a whole array of a file; texts as an array of str. Throws InputError if it is missing.

    Bytes that are not UTF-8 are surrogates, as in file names: id.encode("utf-8", "surrogateescape") is the id.
    """
    if name not in group:
        raise InputError(f"{group.file.filename}: {group.name.rstrip('/')}/{name} is missing")
    data = group[name]
    text = h5py.check_string_dtype(data.dtype) is not None
    return np.asarray(data.asstr("utf-8", "surrogateescape")[:] if text else data[:])


def read_matrix(group: h5py.Group, columns: int) -> sp.csr_matrix:
    """Returns a sparse matrix (rows, columns) of `indptr` and `indices`.

    The values are `weights`, which are those of interactions, else `data`, else all 1. Throws InputError if an index is
    not that of a column, or the rows are not those of the values.
    """
    indptr, indices = read_values(group, "indptr"), read_values(group, "indices")
    values = next((name for name in ("interaction_weights", "data") if name in group), None)
    data = np.ones(len(indices), np.float32) if values is None else read_values(group, values)
    if len(indices) and not (indices.min() >= 0 and indices.max() < columns):
        wrong = indices.min() if indices.min() < 0 else indices.max()
        raise InputError(
            f"{group.file.filename}: {group.name}/indices contains {wrong}, but there are {columns} columns; write the file again"
        )
    ends = len(indptr) and indptr[0] == 0 and indptr[-1] == len(indices) == len(data)
    if not ends or (np.diff(indptr) < 0).any():
        raise InputError(
            f"{group.file.filename}: {group.name}/indptr does not divide the {len(indices)} indices into rows; "
            "write the file again"
        )
    return sp.csr_matrix((data, indices, indptr), (len(indptr) - 1, columns))


class ItemMatrix(sp.csr_matrix):  # type: ignore[misc]
    """A CSR matrix (users, items) that remembers the ids of its columns, also in slices of its rows.

    Results of other operations are matrices without ids. Multiply it with `@`.

    >>> rows = vaecf.Dataset("data/own.h5").train
    >>> rows.shape, rows[:5].item_id is rows.item_id
    ((40, 20), True)
    """

    item_id: np.ndarray[Any, Any] | None = None
    """The ids of the items, in the order of the columns; None: not known."""

    def __getitem__(self, key: Any) -> Any:
        """Returns a part of the matrix as SciPy does; whole rows remember the ids."""
        part = super().__getitem__(key)
        columns = key[1] if isinstance(key, tuple) and len(key) == 2 else slice(None)
        whole = isinstance(columns, slice) and columns == slice(None)
        if isinstance(part, ItemMatrix):
            part.item_id = self.item_id if whole and part.shape[1] == self.shape[1] else None
        return part


def item_matrix(matrix: sp.csr_matrix, item_id: np.ndarray[Any, Any]) -> ItemMatrix:
    """Returns the matrix with the ids of its columns, on the same memory."""
    known = ItemMatrix(matrix, copy=False)
    known.item_id = item_id
    return known


def titles_of(
    ids: pd.Series[Any] | np.ndarray[Any, Any],
    item_id: np.ndarray[Any, Any],
    item_title: np.ndarray[Any, Any] | None,
    path: Path,
) -> list[str]:
    """Returns the titles of items by their ids. Throws InputError if there are no titles."""
    if item_title is None:
        raise InputError(f"{path}: contains no titles")
    table = dict(zip(item_id.tolist(), item_title.tolist(), strict=True))
    return [str(table[item]) for item in np.asarray(ids).tolist()]


@dataclass(frozen=True)
class HeldOut:
    """The held-out users of one split: a row of each matrix is a user.

    >>> test = vaecf.Dataset("data/own.h5").test
    >>> test.fold_in.shape, test.held_out.shape, len(test.user_id)
    ((10, 20), (10, 20), 10)
    """

    fold_in: ItemMatrix
    """The items that are the model's input, (users, items); the values are weights if the dataset has them, else 1."""
    held_out: ItemMatrix
    """The targets, (users, items); all values are 1."""
    user_id: np.ndarray[Any, Any]
    """The ids of the users in the source; row numbers if the dataset has none."""
    user_features: sp.csr_matrix | None
    """The features of the users, (users, features); None if the dataset has none."""


class Dataset:
    """A dataset of vaecf_dist. Matrices are read at first use and kept; no file stays open.

    >>> data = vaecf.Dataset("data/own.h5")
    >>> data
    Dataset('data/own.h5'): 60 users, 20 items
    >>> data.stages.loc["raw"].tolist()
    [402, 60, 20]
    """

    def __init__(self, path: str | Path) -> None:
        """Opens a dataset. Throws InputError if the file is not one."""
        self.path = local_path(path)
        self._file = file_version(self.path)
        with self._open() as file:
            self.attributes = read_attributes(file)
            if "train" not in file or "items" not in self.attributes:
                raise InputError(f"{path}: is not a dataset; vaecf.prepare writes one")
        self._require_known()
        self.n_items = int(self.attributes["items"])
        self.name = str(self.attributes.get("name", self.path.stem))

    def _require_known(self) -> None:
        """Throws InputError if another version wrote the file, such that its meaning may not be known."""
        writer = self.attributes.get("written_by", "an unknown program")
        if self.attributes.get("format_version", FORMAT) != FORMAT:
            raise InputError(
                f"{self.path}: its format_version is {self.attributes['format_version']}, but vaecf {__version__} reads "
                f"{FORMAT} only; prepare it again (it was written by {writer})"
            )
        if self.attributes.get("requires"):
            raise InputError(
                f"{self.path}: requires a program that knows {self.attributes['requires']}, but vaecf {__version__} does "
                f"not; it was written by {writer}"
            )
        rule = self.attributes.get("interaction_weights")
        if rule not in (None, "rating", "log1p"):
            raise InputError(f"{self.path}: interaction_weights is {rule}, which vaecf {__version__} does not implement; {writer} wrote it")

    def __repr__(self) -> str:
        return f"Dataset({str(self.path)!r}): {self.attributes.get('users')} users, {self.n_items} items"

    def require_unchanged(self) -> None:
        """Throws InputError if the file is not the one that was opened: if its inode, size or time is another.

        >>> vaecf.Dataset("data/own.h5").require_unchanged()
        """
        if file_version(self.path) != self._file:
            raise InputError(f"{self.path}: was replaced since it was opened; open it again with vaecf.Dataset")

    @contextmanager
    def _open(self) -> Iterator[h5py.File]:
        with open_hdf5(self.path) as file:
            self.require_unchanged()
            yield file

    @cached_property
    def train(self) -> ItemMatrix:
        """The items of the train users, (users, items); the values are weights if the dataset has them, else 1."""
        with self._open() as file:
            return item_matrix(read_matrix(file["train"], self.n_items), self.item_id)

    @cached_property
    def train_user_id(self) -> np.ndarray[Any, Any]:
        """The ids of the train users in the source; row numbers if the dataset has none."""
        with self._open() as file:
            group = file["train"]
            return read_values(group, "user_id") if "user_id" in group else np.arange(len(group["indptr"]) - 1)

    @cached_property
    def validation(self) -> HeldOut:
        """The validation users."""
        return self._held_out("validation")

    @cached_property
    def test(self) -> HeldOut:
        """The test users."""
        return self._held_out("test")

    @cached_property
    def item_id(self) -> np.ndarray[Any, Any]:
        """The ids of the items in the source, in the order of the columns; their numbers if the dataset has none."""
        with self._open() as file:
            return read_values(file, "items/id") if "items/id" in file else np.arange(self.n_items)

    @cached_property
    def item_title(self) -> np.ndarray[Any, Any] | None:
        """The titles of the items; None if the dataset has none."""
        with self._open() as file:
            return read_values(file, "items/title") if "items/title" in file else None

    @cached_property
    def popularity(self) -> np.ndarray[Any, Any]:
        """The number of train users of each item."""
        return np.bincount(self.train.indices, minlength=self.n_items)

    @property
    def stages(self) -> pd.DataFrame:
        """The events, users and items that remained after each stage of prepare; empty if another program made the file."""
        row = re.compile(r"(?P<stage>.*\S) +(?P<events>[0-9,]+) +(?P<users>[0-9,]+) +(?P<items>[0-9,]+)")
        rows = map(row.fullmatch, str(self.attributes.get("report", "")).splitlines())
        table = pd.DataFrame([found.groupdict() for found in rows if found], columns=["stage", *row.groupindex][1:])
        return pd.DataFrame(
            {name: table[name].str.replace(",", "").astype(np.int64) for name in table.columns[1:]}
        ).set_index(pd.Index(table["stage"], name="stage"))

    def titles(self, ids: pd.Series[Any] | np.ndarray[Any, Any]) -> list[str]:
        """Returns the titles of items by their ids. Throws InputError if the dataset has no titles.

        >>> vaecf.Dataset("data/own.h5").titles([1, 2])
        ['Film 1', 'Film 2']
        """
        return titles_of(ids, self.item_id, self.item_title, self.path)

    def _held_out(self, split: str) -> HeldOut:
        with self._open() as file:
            if split not in file:
                raise InputError(f"{self.path}: the dataset has no {split} users")
            group = file[split]
            fold_in = item_matrix(read_matrix(group["fold_in"], self.n_items), self.item_id)
            held_out = item_matrix(read_matrix(group["held_out"], self.n_items), self.item_id)
            features = None
            if "user_features" in group and int(self.attributes.get("user_features", 0)) > 0:
                features = read_matrix(group["user_features"], int(self.attributes["user_features"]))
            users = read_values(group, "user_id") if "user_id" in group else np.arange(fold_in.shape[0])
            return HeldOut(fold_in, held_out, users, features)
