"""The size of a training step of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..errors import InputError
from .model import Workload


@dataclass(frozen=True)
class DataSizes:
    """Numbers of items and features, and mean training interactions per user."""

    items: int
    features: int
    interactions_per_user: float


def layers(model_type: str, model: Mapping[str, Any], items: int) -> tuple[list[int], list[int]]:
    """Returns the widths of the encoder and of the decoder, with the items at the ends. Throws InputError if the model
    is not a Mult-VAE or Mult-DAE."""
    if model_type not in ("mult_vae", "mult_dae"):
        raise InputError(f"model.type: {model_type} cannot be predicted, only mult_vae and mult_dae; measure it (launch/scaling)")
    hidden, latent = [int(width) for width in model["hidden"]], int(model["latent"])
    return [items, *hidden, 2 * latent if model_type == "mult_vae" else latent], [latent, *reversed(hidden), items]


def workload_of(config: Mapping[str, Any], sizes: DataSizes) -> Workload:
    """Returns the number of weights and the memory traffic of a training step. `config`: every key, dotted."""
    model = {key: config[f"model.{key}"] for key in ("hidden", "latent")}
    encoder, decoder = layers(config["model.type"], model, sizes.items)
    weights = [inputs * outputs for inputs, outputs in [*pairwise(encoder), *pairwise(decoder)]]
    biases = sum(encoder[1:]) + sum(decoder[1:])
    half = config["train.precision"] not in ("fp32", "tf32", "bf16x3")
    width = 2.0 if half else 4.0
    # The gradient of the logits is written once and read twice. One row of the input table is gathered per item that
    # dropout keeps, and one is added in the backward pass.
    kept = (1.0 - float(config["model.dropout"])) * sizes.interactions_per_user
    table_widths = encoder[1] + decoder[-2]
    return Workload(
        parameters=float(sum(weights) + biases + sizes.features * encoder[1]),
        dense_weights=float(sum(weights) - weights[0]),
        bytes_per_user=3.0 * width * sizes.items + 2.0 * width * kept * encoder[1],
        half_copy_bytes=2.0 if half else 0.0,
        table_parameters=float(sizes.items * (table_widths + 1)),
        table_widths=float(table_widths),
        gathered_bytes=width,  # of a GPU
    )


def data_sizes(config: Mapping[str, Any], name: str, items: int, interactions_per_user: float) -> DataSizes:
    """Returns the sizes given on the command line if it has both, else those of the dataset. Throws InputError if the
    dataset does not exist, or if a user would have more items than there are."""
    if items > 0 and interactions_per_user > 0.0:
        if interactions_per_user > items:
            raise InputError(
                f"--interactions-per-user {interactions_per_user:g} exceeds the number of items ({items}); "
                "a user can have each item at most once"
            )
        return DataSizes(items, 0, interactions_per_user)
    path = Path(str(config["data.file"]))
    if not path.is_file():
        raise InputError(
            f"{name}: data.file {path} does not exist; pass --items and --interactions-per-user, "
            "or prepare it first (vaecf_dist prepare)"
        )
    try:
        import h5py  # pylint: disable=import-outside-toplevel
    except ModuleNotFoundError:
        raise InputError(
            "reading the dataset requires h5py (Debian, Ubuntu: apt-get install python3-h5py); "
            "or pass --items and --interactions-per-user"
        ) from None
    with h5py.File(path) as file:
        users = max(1, len(file["train/indptr"]) - 1)
        features = int(file.attrs.get("user_features", 0)) if config["model.user_features"] is not False else 0
        return DataSizes(int(file.attrs["items"]), features, len(file["train/indices"]) / users)
