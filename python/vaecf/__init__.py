"""Reads what vaecf_dist writes, starts it, and reports on its runs."""

from .dataset import Dataset, HeldOut, ItemMatrix
from .errors import InputError
from .model import Model
from .run import Run
from .texts import escaped

__all__ = ["Dataset", "HeldOut", "InputError", "ItemMatrix", "Model", "Run", "escaped"]
