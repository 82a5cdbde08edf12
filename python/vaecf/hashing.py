"""Makes the feature inputs of users from tables, by the hashing that docs/SERVING.md describes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from .ids import native_column
from .values import field_texts, python_values

_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_MASK = 2**64 - 1


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (64 - bits)) & _MASK


def _round(sum_of: int, lane: int) -> int:
    return _rotated(sum_of + lane * _P2, 31) * _P1 & _MASK


@lru_cache(2**16)
def xxh64(data: bytes, seed: int = 0) -> int:
    """Returns XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md)."""
    position, size = 0, len(data)
    if size >= 32:
        lanes = [seed + _P1 + _P2 & _MASK, seed + _P2 & _MASK, seed & _MASK, seed - _P1 & _MASK]
        while position + 32 <= size:
            for k in range(4):
                lanes[k] = _round(lanes[k], int.from_bytes(data[position + 8 * k : position + 8 * k + 8], "little"))
            position += 32
        result = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            result = ((result ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        result = seed + _P5 & _MASK
    result = result + size & _MASK
    while position + 8 <= size:
        lane = int.from_bytes(data[position : position + 8], "little")
        result = (_rotated(result ^ _round(0, lane), 27) * _P1 + _P4) & _MASK
        position += 8
    if position + 4 <= size:
        lane = int.from_bytes(data[position : position + 4], "little")
        result = (_rotated(result ^ (lane * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        position += 4
    for byte in data[position:]:
        result = _rotated(result ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    for shift, factor in ((33, _P2), (29, _P3)):
        result = (result ^ result >> shift) * factor & _MASK
    return result ^ result >> 32


def feature_rows(
    table: Any, hashing: str, users: Sequence[Sequence[int]], features: int, separator: str
) -> sp.csr_matrix:
    """Returns the feature inputs of users by their rows in a table, (users, features); those of several rows are joined.

    `hashing`: the attribute feature_hashing of a checkpoint. `separator`: that of the values of a field. Throws InputError
    if a column is missing.
    """
    found: list[set[int]] = [set() for _ in users]
    first = 0
    for line in hashing.split("\n")[1:]:  # the first line names the hash
        hashes, buckets, name = line.split(" ", 2)
        fields = python_values(native_column(table, name))
        texts = [[text for row in rows for text in field_texts(fields[row], separator)] for rows in users]
        for j in range(int(hashes)):
            seed = xxh64(name.encode(), j)
            for columns, of_user in zip(found, texts, strict=True):
                for text in of_user:
                    columns.add(first + xxh64(text.encode("utf-8", "surrogateescape"), seed) % int(buckets))
            first += int(buckets)
    indices = np.array([column for columns in found for column in sorted(columns)], np.int32)
    indptr = np.concatenate([[0], np.cumsum([len(columns) for columns in found])])
    return sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), (len(found), features))
