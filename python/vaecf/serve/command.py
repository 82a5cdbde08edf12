"""Answers requests over HTTP with the model of a checkpoint."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from .. import errors
from ..errors import InputError, install
from ..library import USERS
from ..texts import local_path


def _whole(least: int, most: int) -> Callable[[str], int]:
    """Returns what reads a number between two others."""

    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"must be {least} to {most}, got {value}")
        return value

    return number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Defines the options."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the model, such as runs/NAME/checkpoints/best.h5")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:8000", help="default: 127.0.0.1:8000; port 0: any")
    place.add_argument("--socket", metavar="PATH", help="a Unix socket for this user alone, instead of a port")
    parser.add_argument("--watch", action="store_true", help="also serve a checkpoint that replaces this one, if it is valid")
    parser.add_argument(
        "--at-most", nargs=2, metavar=("FILE", "N"), help="at most N items of a category, of a table of items and categories"
    )
    parser.add_argument("--category-column", metavar="COLUMN", help="the column of categories in the table of --at-most")
    for name, default, least, most, meaning in (
        ("workers", 1, 1, 1024, "processes, which share the model; each computes with one thread"),
        ("max-body", 1 << 20, 1, 1 << 30, "bytes of the body of a request"),
        ("max-users", 1000, 1, USERS, "users, or items of /similar, of a request"),
        ("max-k", 1000, 1, 1 << 20, "items of a list"),
        ("max-reasons", 10, 0, 1000, "reasons of an item"),
        ("max-connections", 1000, 1, 1 << 20, "connections of a worker; requests of further ones have status 503"),
    ):  # fmt: skip
        number, described = _whole(least, most), f"{meaning} (default: {default})"
        parser.add_argument(f"--{name}", type=number, default=default, metavar="N", help=described)


def run(options: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT."""
    try:
        from .answers import ServedModel, read_categories
        from .app import Limits
        from .workers import Service, Workers, address_of, listen, listen_at
    except ImportError as error:
        raise InputError(f"vaecf serve requires FastAPI and uvicorn ({error}); install them with: {install('serve')}") from None
    categories, at_most = None, 0
    if options.at_most:
        file, number = options.at_most
        if not (number.isascii() and number.isdigit() and 1 <= int(number) < 1 << 31):
            raise InputError(f"--at-most {file} {number}: N must be 1 or more")
        categories, at_most = read_categories(file, options.category_column), int(number)
    path = local_path(options.checkpoint)
    limits = Limits(options.max_body, options.max_users, options.max_k, options.max_reasons, options.max_connections)
    listener = listen_at(Path(options.socket)) if options.socket else listen(options.listen)
    place = options.socket or address_of(listener)
    try:
        workers = Workers(options.workers, listener, limits)
        Service(path, lambda: ServedModel(path, categories, at_most), workers, options.watch).run(place)
    finally:
        if options.socket:
            Path(options.socket).unlink(missing_ok=True)
    return errors.DONE
