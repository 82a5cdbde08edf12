"""Calls libvaecf, the code of `vaecf_dist recommend` behind a C interface (include/vaecf.h)."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import site
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp

from . import __version__
from .errors import InputError, RunError
from .files import file_version
from .program import find_program

Array = np.ndarray[Any, Any]
Matrix = Any  # a csr_matrix, or SparseRows

NAME = "libvaecf.so.1"
_OK, _FAILED = 0, 1
# Users of a call, after which Ctrl-C ends the work: whole batches of 256, of which a user's bits depend.
USERS = 4 * 256
_MAX_INT = 2**31 - 1


class _Rows(ctypes.Structure):
    _fields_ = [
        ("rows", c_int64),
        ("begin", c_void_p),
        ("columns", c_void_p),
        ("values", c_void_p),
    ]


class _Columns(ctypes.Structure):
    _fields_ = [("count", c_int64), ("columns", c_void_p)]


class _Request(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("histories", _Rows),
        ("user_features", _Rows),
        ("exclude_of_user", _Rows),
        ("include", POINTER(_Columns)),
        ("exclude", POINTER(_Columns)),
        ("categories", POINTER(_Rows)),
        ("at_most", c_int32),
        ("k", c_int32),
        ("keep_seen", c_int32),
        ("reasons", c_int32),
        ("threads", c_int32),
    ]


def _pointer(values: Array) -> int:
    """Returns the address of an array, which takes less time than a pointer of ctypes."""
    return values.ctypes.data


class _Arrays:
    """Passes arrays to the library, and keeps them alive."""

    def __init__(self) -> None:
        self._kept: list[Array] = []

    def _pointer(self, values: Any, dtype: Any) -> int:
        self._kept.append(np.ascontiguousarray(values, dtype))
        return _pointer(self._kept[-1])

    def columns(self, columns: Array | None) -> _Columns | None:
        """Returns some columns; None for None."""
        return None if columns is None else _Columns(len(columns), self._pointer(columns, np.int32))

    def rows(self, matrix: Matrix | None, with_values: bool = False) -> _Rows:
        """Returns the rows of a matrix whose columns ascend; no rows for None."""
        if matrix is None:
            return _Rows()
        begin, columns = self._pointer(matrix.indptr, np.int64), self._pointer(matrix.indices, np.int32)
        values = self._pointer(matrix.data, np.float32) if with_values else None
        return _Rows(matrix.shape[0], begin, columns, values)


def _optional(value: Any) -> Any:
    return None if value is None else ctypes.pointer(value)


def find_library() -> str:
    """Returns the path of libvaecf: the variable VAECF_LIBRARY, or else that which was installed or built with this package
    or with the program (find_program). Throws InputError if there is none."""
    named = os.environ.get("VAECF_LIBRARY", "")
    python = Path(__file__).resolve().parent.parent
    # A wheel's library is in PREFIX/lib/vaecf_dist, and this package may be in PREFIX/share/vaecf_dist/python.
    prefixes = [Path(sys.prefix), Path(site.getuserbase())]
    with suppress(InputError):
        prefixes.insert(0, Path(find_program()).resolve().parent.parent)
    if python.parts[-3:] == ("share", "vaecf_dist", "python"):
        prefixes.insert(0, python.parents[2])
    folders = [prefix / lib for prefix in prefixes for lib in ("lib", "lib/vaecf_dist", "lib64", "lib/x86_64-linux-gnu")]
    for candidate in [named] if named else [str(folder / NAME) for folder in folders]:
        if Path(candidate).is_file():
            return candidate
    raise InputError(
        f"{named or NAME} does not exist, with which vaecf.Model computes; install the package vaecf-dist with the program, "
        f"or build it (launch/build) and set VAECF_LIBRARY to the path of {NAME}"
    )


@cache
def _library() -> ctypes.CDLL:
    """Loads the library. Throws InputError if it is missing, or of another version than this package."""
    path = find_library()
    try:
        library = ctypes.CDLL(path)
        library.vaecf_version.restype = c_uint32
        version = int(library.vaecf_version())
    except (OSError, AttributeError) as error:
        raise InputError(f"{path}: cannot be loaded ({error}); install or build it again") from None
    found = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
    if found != __version__:
        raise InputError(f"{path}: has version {found}, but this package {__version__}; install both of one version")
    library.vaecf_free_memory.restype = c_int64
    library.vaecf_error.restype = c_char_p
    library.vaecf_facts.restype = c_char_p
    library.vaecf_facts.argtypes = [c_void_p]
    library.vaecf_close.argtypes = [c_void_p]
    library.vaecf_close.restype = None
    array = c_void_p  # the address of an array
    for name, arguments in {
        "open": [c_char_p, c_char_p, POINTER(c_void_p)],
        "find": [c_void_p, c_int64, POINTER(c_char_p), array],
        "user_feature_columns": [
            c_void_p, c_int64, POINTER(c_char_p), POINTER(c_char_p), array, c_int64, POINTER(c_int64)
        ],
        "recommend": [c_void_p, POINTER(_Request), array, array, array, array],
        "score": [c_void_p, POINTER(_Request), array],
        "item_vectors": [c_void_p, c_int64, c_int64, c_int32, array],
        "user_vectors": [c_void_p, POINTER(_Request), c_int32, array],
        "similar": [c_void_p, _Columns, c_int32, array, array],
    }.items():  # fmt: skip
        function = getattr(library, f"vaecf_{name}")
        function.argtypes, function.restype = arguments, ctypes.c_int
    return library


def free_memory() -> int:
    """Returns the bytes of memory that this process may still use."""
    return int(_library().vaecf_free_memory())


class _Calls:
    """Counts the calls of the library, because the interpreter must not end during one of a daemon thread."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.running = 0
        self.are_ended = False

    def __enter__(self) -> None:
        with self.changed:
            while self.are_ended and threading.current_thread().daemon:
                self.changed.wait()
            self.running += 1

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self.running -= 1
            self.changed.notify_all()

    def end(self) -> None:
        """Waits until no call runs; daemon threads begin none afterwards."""
        with self.changed:
            self.are_ended = True
            self.changed.wait_for(lambda: self.running == 0)


_calls, _loading = _Calls(), threading.Lock()
atexit.register(lambda: _calls.end())


def _start_anew() -> None:
    global _calls, _loading
    _calls, _loading = _Calls(), threading.Lock()


# Other threads of the parent, which a child has not, may have these locks.
os.register_at_fork(after_in_child=_start_anew)


def _call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status. Throws InputError or RunError with the library's message."""
    library = _library()
    with _calls:
        status = getattr(library, f"vaecf_{name}")(*arguments)
    if status != _OK:
        text = library.vaecf_error().decode("utf-8", "backslashreplace")
        raise (RunError if status == _FAILED else InputError)(text)


def _bytes(text: str) -> bytes:
    """Returns an id as stored, whose bytes that are not UTF-8 are surrogates; bytes of no id if it cannot be stored."""
    try:
        found = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return b"\xff\xfe"
    return found if b"\0" not in found else b"\xff\xfe"


@dataclass(frozen=True)
class SparseRows:
    """Rows of at most USERS users, as of a csr_matrix whose columns ascend, which takes longer to make. Without `data` all
    values are 1."""

    shape: tuple[int, int]
    indptr: Array
    indices: Array
    data: Array | None


@dataclass(frozen=True)
class Lists:
    """Lists of `width` places for each user, best first. Unused places have the column -1 and the score -inf or nan."""

    items: Array
    scores: Array
    because: Array
    contributions: Array


def _close(model: c_void_p) -> None:
    with h5py._objects.phil:  # pylint: disable=protected-access
        _library().vaecf_close(model)


class LoadedModel:
    """The model of a checkpoint in memory."""

    def __init__(self, path: str) -> None:
        """Throws InputError if the file is not a checkpoint that this version reads."""
        model = c_void_p()
        # HDF5 may be the same library as h5py's, and not be thread-safe.
        with h5py._objects.phil:  # pylint: disable=protected-access
            _call("open", os.fsencode(path), None, byref(model))
        self._model = model
        # Not at exit, where a daemon thread may still be in a call.
        weakref.finalize(self, _close, model).atexit = False
        self.facts: dict[str, Any] = json.loads(_library().vaecf_facts(model).decode("utf-8", "surrogateescape"))

    def find(self, ids: Sequence[str]) -> Array:
        """Returns the columns of items by their ids, int32; -1 for unknown ones."""
        columns = np.empty(len(ids), np.int32)
        texts = (c_char_p * len(ids))(*map(_bytes, ids))
        _call("find", self._model, len(ids), texts, _pointer(columns))
        return columns

    def user_feature_columns(self, name: str, value: str) -> Array:
        """Returns the feature inputs that a value in the column `name` of the table of users sets, ascending."""
        columns, used = np.empty(64, np.int32), c_int64()  # more than the hashes of a value
        names, values = (c_char_p * 1)(_bytes(name)), (c_char_p * 1)(_bytes(value))
        _call("user_feature_columns", self._model, 1, names, values, _pointer(columns), len(columns), byref(used))
        return columns[: used.value].copy()

    def _requests(
        self,
        histories: Matrix,
        features: Matrix | None,
        exclude_of_user: Matrix | None = None,
        least: int = 0,
        **members: Any,
    ) -> Iterator[tuple[slice, _Request]]:
        """Yields the rows of some users after the other, and a request for these users, which is valid until the next.
        `least`: 1 for a request also if there is no user."""
        weighted = bool(self.facts["interaction_weights"])
        for first in range(0, max(least, histories.shape[0]), USERS):
            rows, arrays = slice(first, first + USERS), _Arrays()
            some = [
                matrix if matrix is None or histories.shape[0] <= USERS else matrix[rows]
                for matrix in (histories, features, exclude_of_user)
            ]
            yield rows, _Request(
                ctypes.sizeof(_Request),
                histories=arrays.rows(some[0], weighted),
                user_features=arrays.rows(some[1]),
                exclude_of_user=arrays.rows(some[2]),
                **members,
            )

    def recommend(
        self,
        histories: Matrix,
        features: Matrix | None,
        *,
        k: int,
        keep_seen: bool,
        reasons: int,
        include: Array | None,
        exclude: Array | None,
        exclude_of_user: Matrix | None,
        categories: sp.csr_matrix | None,
        at_most: int,
        threads: int = 0,
    ) -> Lists:
        """Returns the lists of users, as vaecf_recommend() of include/vaecf.h describes them. `threads`: 1 for the calling
        one alone, 0 for all."""
        users = histories.shape[0]
        width = min(k, int(self.facts["items"]))
        lists = Lists(
            np.empty((users, width), np.int32),
            np.empty((users, width), np.float32),
            np.empty((users, width, reasons), np.int32),
            np.empty((users, width, reasons), np.float32),
        )
        arrays = _Arrays()
        for rows, request in self._requests(
            histories,
            features,
            exclude_of_user,
            k=width,
            keep_seen=int(keep_seen),
            reasons=reasons,
            include=_optional(arrays.columns(include)),
            exclude=_optional(arrays.columns(exclude)),
            categories=None if categories is None else _optional(arrays.rows(categories)),
            at_most=min(at_most, _MAX_INT),
            threads=threads,
        ):
            _call(
                "recommend",
                self._model,
                byref(request),
                _pointer(lists.items[rows]),
                _pointer(lists.scores[rows]),
                _pointer(lists.because[rows]) if reasons else None,
                _pointer(lists.contributions[rows]) if reasons else None,
            )
        return lists

    def score(self, histories: sp.csr_matrix, features: sp.csr_matrix | None) -> Array:
        """Returns the scores (users, items), float32; nan for users with neither items nor features."""
        scores = np.empty(histories.shape, np.float32)
        for rows, request in self._requests(histories, features):
            _call("score", self._model, byref(request), _pointer(scores[rows]))
        return scores

    def item_vectors(self) -> Array:
        """Returns the vectors of all items, (items, vector_width). Throws InputError if the model has none."""
        vectors = np.empty((int(self.facts["items"]), int(self.facts["vector_width"])), np.float32)
        _call("item_vectors", self._model, 0, *vectors.shape, _pointer(vectors))
        return vectors

    def user_vectors(self, histories: sp.csr_matrix, features: sp.csr_matrix | None) -> Array:
        """Returns the vectors of users, (users, vector_width). Throws InputError if the model has none."""
        width = int(self.facts["vector_width"])
        vectors = np.empty((histories.shape[0], width), np.float32)
        for rows, request in self._requests(histories, features, least=1):
            _call("user_vectors", self._model, byref(request), width, _pointer(vectors[rows]))
        return vectors

    def similar(self, items: Array, k: int) -> tuple[Array, Array]:
        """Returns the columns of the items most similar to each of some, and the similarities, (items, k)."""
        width = min(k, int(self.facts["items"]))
        found, scores = np.empty((len(items), width), np.int32), np.empty((len(items), width), np.float32)
        arrays = _Arrays()
        with h5py._objects.phil:  # pylint: disable=protected-access
            _call("similar", self._model, arrays.columns(items), width, _pointer(found), _pointer(scores))
        return found, scores


_loaded: weakref.WeakValueDictionary[tuple[Any, ...], LoadedModel] = weakref.WeakValueDictionary()


def identity(path: str | Path) -> tuple[Any, ...]:
    """Returns what tells a file from another that replaces it. Throws InputError if there is none."""
    version = file_version(path)
    if version is None:
        raise InputError(f"{path}: no such file; check the path")
    return (str(Path(path).resolve()), *version)


def load(path: str | Path, file: tuple[Any, ...]) -> LoadedModel:
    """Returns the model of the checkpoint `path`, whose identity is `file`. Objects for one file share it."""
    with _loading:
        model = _loaded.get(file)
        if model is None:
            model = _loaded[file] = LoadedModel(str(path))
        return model
