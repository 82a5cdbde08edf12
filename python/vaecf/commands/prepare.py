"""Makes a dataset of files of Parquet, Feather, CSV or JSON lines."""

from __future__ import annotations

import argparse
import sys
import warnings

from .. import errors
from ..errors import InputError, RunError
from ..preparation import prepare
from ..wording import option_words
from ..yaml_files import parse_yaml


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Defines the options: the arguments of vaecf.prepare."""
    parser.add_argument("sources", nargs="+", metavar="FILE", help="files of events, or a folder of them")
    parser.add_argument(
        "--file", required=True, metavar="DATA.h5", help="the dataset to write, and DATA.yaml beside it"
    )
    parser.add_argument("--user", metavar="COLUMN", help="column of user ids; of text files by default that with a usual name")
    parser.add_argument("--item", metavar="COLUMN", help="column of item ids; likewise")
    parser.add_argument("--rating", metavar="COLUMN", help="column of ratings or counts; default: every line counts")
    parser.add_argument("--time", metavar="COLUMN", help="column of times; default: lines are in the order of time")
    parser.add_argument("--items", metavar="FILE", help="table of items; its ids are in the column of the same name, by default in the first")
    parser.add_argument("--users", metavar="FILE", help="table of users; its ids are in the column of the same name, by default in the first")
    parser.add_argument("--title", metavar="COLUMN", help="column of titles in the table of items")
    for table in ("item", "user"):
        parser.add_argument(
            f"--{table}-features", type=lambda text: text.split(","), metavar="COLUMN,...", help=f"columns of the table of {table}s that become features"
        )
    parser.add_argument("--dates", nargs=2, metavar="DATE", help="the two cuts of --split time")
    for name, kind in (
        ("duplicates", str),
        ("min_rating", float),
        ("split", str),
        ("validation_users", int),
        ("test_users", int),
        ("min_user_items", int),
        ("min_item_users", int),
        ("seed", int),
    ):
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=kind, metavar="VALUE", help=f"the key data.prepare.{name}"
        )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any other key; repeatable")
    parser.add_argument("--strict", action="store_true", help="treat malformed lines as errors instead of reporting and skipping them")
    parser.add_argument("--force", action="store_true", help="prepare again even if the dataset exists with the same source and options")
    parser.add_argument(
        "--replace", action="store_true", help="overwrite the file even if it is not an intact dataset of prepare or synthesize"
    )
    detail = parser.add_mutually_exclusive_group()
    detail.add_argument("-v", "--verbose", action="store_true", help="more detailed log")
    detail.add_argument("-q", "--quiet", action="store_true", help="print only results, warnings and errors")
    parser.add_argument("--program", help="path of vaecf_dist")


def run(options: argparse.Namespace) -> int:
    """Prepares the dataset and prints the table of counts and what was dropped."""
    arguments = {name: value for name, value in vars(options).items() if name not in ("command", "sources", "set", "quiet")}
    settings = {}
    for text in options.set:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set {text}: must be KEY=VALUE")
        settings[key] = parse_yaml(value)

    def log(line: str) -> None:
        print(errors.escape(option_words(line)), file=sys.stderr)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            data = prepare(options.sources, settings=settings, log=None if options.quiet else log, **arguments)
        except (InputError, RunError) as error:
            raise type(error)(option_words(str(error))) from None
        finally:
            for warning in caught:
                print(f"warning: {errors.escape(option_words(str(warning.message)))}", file=sys.stderr)
    print(data.attributes["report"], end="")
    return errors.DONE
