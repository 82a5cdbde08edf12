"""The scores of each type of model by NumPy, from the formulas and the weights of a checkpoint alone: what vaecf.Model is
compared with."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp
from scipy.special import expit


import vaecf
from vaecf.dataset import read_matrix, read_values

Array = np.ndarray[Any, Any]
Layer = dict[str, Array]


def unit_rows(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Returns the matrix with its rows divided by their L2 norms; empty rows stay empty."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    norms = np.sqrt(np.bincount(rows, matrix.data.astype(np.float64) ** 2, matrix.shape[0]))
    data = (matrix.data / norms[rows]).astype(np.float32)
    return sp.csr_matrix((data, matrix.indices, matrix.indptr), matrix.shape)


def _swish_norm(s: Array, layer: Layer) -> Array:
    """Returns the swish of s, normalized over each row (epsilon 0.1)."""
    y = s * expit(s)
    centered = y - y.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centered**2).mean(axis=1, keepdims=True) + 0.1)
    return np.asarray(centered / deviation * layer["gain"] + layer["offset"])


def _affine(x: Any, layer: Layer) -> Array:
    return np.asarray(x @ layer["weight"] + layer["bias"])


class _Layers:
    """What networks share: an encoder, a decoder, and what follows from their scores."""

    def __init__(self, weights: h5py.Group) -> None:
        self.encoder, self.decoder = _layers(weights, "encoder"), _layers(weights, "decoder")

    def score(self, rows: sp.csr_matrix, features: sp.csr_matrix | None) -> Array:
        raise NotImplementedError

    def similarities(self, columns: Array) -> Array:
        return _cosines(self.decoder[-1]["weight"], columns)


class Network(_Layers):
    """mult_vae, mult_dae and autoencoder: chains of layers with one activation."""

    def __init__(self, weights: h5py.Group, kind: str, config: dict[str, Any]) -> None:
        super().__init__(weights)
        self.variational = kind == "mult_vae"
        self.plain = kind == "autoencoder"
        names = {"sigmoid": expit, "tanh": np.tanh, "identity": lambda x: x}
        self.activation = names[str(config.get("model.autoencoder.activation", "sigmoid")) if self.plain else "tanh"]
        self.squared = self.plain and config.get("model.autoencoder.loss", "squared") == "squared"

    def score(self, rows: sp.csr_matrix, features: sp.csr_matrix | None) -> Array:
        x: Any = rows if self.plain else unit_rows(rows)
        for k, layer in enumerate(self.encoder):
            s = _affine(x, layer)
            if k == 0 and features is not None:
                s += unit_rows(features) @ layer["feature_weight"]
            last = k + 1 == len(self.encoder)
            x = s[:, : s.shape[1] // 2] if last and self.variational else self.activation(s)
        for layer in self.decoder[:-1]:
            x = self.activation(_affine(x, layer))
        scores = _affine(x, self.decoder[-1])
        return np.asarray(expit(scores)) if self.squared else scores


class RecVae(_Layers):
    """recvae: an encoder with dense skips and layer normalization, and a linear decoder."""

    def score(self, rows: sp.csr_matrix, features: sp.csr_matrix | None) -> Array:
        s = _affine(unit_rows(rows), self.encoder[0])
        if features is not None:
            s += unit_rows(features) @ self.encoder[0]["feature_weight"]
        h = _swish_norm(s, self.encoder[0])
        skips = h.copy()
        for layer in self.encoder[1:-1]:
            h = _swish_norm(_affine(h, layer) + skips, layer)
            skips += h
        latent = _affine(h, self.encoder[-1])
        return _affine(latent[:, : latent.shape[1] // 2], self.decoder[0])


class Elsa:
    """elsa: x A A', with A the normalized rows of the item table."""

    def __init__(self, weights: h5py.Group) -> None:
        table = read_values(weights, "items/weight")
        self.table = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)

    def score(self, rows: sp.csr_matrix, _: sp.csr_matrix | None) -> Array:
        return np.asarray((unit_rows(rows) @ self.table) @ self.table.T)

    def similarities(self, columns: Array) -> Array:
        return np.asarray(self.table[columns] @ self.table.T)


class DenseMatrix:
    """Models that are solved at once: x B with a dense matrix B whose rows are source items."""

    def __init__(self, weights: h5py.Group) -> None:
        self.matrix = read_values(weights, "items/matrix")

    def score(self, rows: sp.csr_matrix, _: sp.csr_matrix | None) -> Array:
        return np.asarray(rows @ self.matrix)

    def similarities(self, columns: Array) -> Array:
        return self.matrix[columns]


class SparseMatrix:
    """Models that are solved at once and store neighbors: x B with a sparse matrix B whose rows are source items."""

    def __init__(self, weights: h5py.Group, items: int) -> None:
        self.matrix = read_matrix(weights["items"], items)

    def score(self, rows: sp.csr_matrix, _: sp.csr_matrix | None) -> Array:
        return np.asarray((rows @ self.matrix).toarray())

    def similarities(self, columns: Array) -> Array:
        rows = self.matrix[columns]
        found = np.full(rows.shape, -np.inf, np.float32)
        for n in range(len(columns)):
            row = rows[n]
            found[n, row.indices] = row.data
        return found


def _cosines(table: Array, columns: Array) -> Array:
    """Returns the cosines of some columns with all columns of a table; 0 for columns of zeros."""
    table = table.astype(np.float64)
    unit = table / np.maximum(np.linalg.norm(table, axis=0), 1e-300)
    return np.asarray(unit[:, columns].T @ unit, np.float32)


def _layers(weights: h5py.Group, name: str) -> list[Layer]:
    """Returns the tensors of name_1, name_2, ..."""
    layers: list[Layer] = []
    while f"{name}_{len(layers) + 1}" in weights:
        group = weights[f"{name}_{len(layers) + 1}"]
        layers.append({tensor: read_values(group, tensor) for tensor in group})
    return layers


Scorer = Network | RecVae | Elsa | DenseMatrix | SparseMatrix


def read_scorer(weights: h5py.Group, kind: str, config: dict[str, Any], items: int) -> Scorer | None:
    """Returns the scorer of a model of the type `kind`; None if there is no such type. A model that was solved at once
    is a matrix between items, whatever its type."""
    if "items/matrix" in weights:
        return DenseMatrix(weights)
    if "items/indptr" in weights:
        return SparseMatrix(weights, items)
    if kind in ("mult_vae", "mult_dae", "autoencoder"):
        return Network(weights, kind, config)
    if kind == "recvae":
        return RecVae(weights)
    if kind == "elsa":
        return Elsa(weights)
    return None


def scorer_of(model: vaecf.Model) -> Scorer:
    """Returns the scorer of a model's checkpoint."""
    with h5py.File(model.path) as file:
        scorer = read_scorer(file["weights"], model.type, model.config, model.n_items)
    assert scorer is not None
    return scorer
