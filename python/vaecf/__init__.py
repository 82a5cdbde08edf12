"""Reads what vaecf_dist writes, starts it, and reports on its runs."""

from .dataset import Dataset, HeldOut
from .errors import InputError
from .model import Model
from .run import Run

__all__ = ["Dataset", "HeldOut", "InputError", "Model", "Run"]
