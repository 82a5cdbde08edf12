"""The command line `vaecf`: one subcommand per module, which is imported only if it is called."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
from collections.abc import Sequence
from typing import TextIO, cast

from . import __version__, errors

# Each module defines add_arguments(parser) and run(options) -> exit code.
COMMANDS = {
    "prepare": ("vaecf.commands.prepare", "make a dataset of Parquet, Feather, CSV or JSON lines"),
    "report": ("vaecf.commands.report", "write a report on runs as one HTML page"),
    "tensorboard": ("vaecf.commands.tensorboard", "write the curves of runs as event files of TensorBoard"),
    "track": ("vaecf.commands.track", "log runs to MLflow, Weights & Biases or trackio"),
    "compare": ("vaecf.commands.compare", "compare recommenders user by user, from files of --per-user"),
    "serve": ("vaecf.serve.command", "answer requests over HTTP with the model of a checkpoint"),
    "sweep": ("vaecf.commands.sweep", "search hyper-parameters with Optuna"),
    "scaling": ("vaecf.scaling.command", "report on a scaling experiment, or predict the speed on another machine"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="vaecf", description="Works with the runs of vaecf_dist.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"vaecf {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = next((argument for argument in arguments if argument in COMMANDS), None)
    module = importlib.import_module(COMMANDS[chosen][0]) if chosen else None
    for name, (_, purpose) in COMMANDS.items():
        described = f"{purpose[0].upper()}{purpose[1:]}."
        command = commands.add_parser(name, help=purpose, description=described, allow_abbrev=False)
        if name == chosen and module:
            module.add_arguments(command)
    options = parser.parse_args(arguments)
    shown: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if sys.stdout.isatty():
        shown = contextlib.redirect_stdout(cast(TextIO, errors.EscapingStream(sys.stdout)))
    try:
        with shown:
            return int(module.run(options)) if module else errors.INVALID
    except errors.Error as error:
        print(f"vaecf: {errors.escape(str(error))}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt as interrupt:
        print(f"vaecf: {errors.escape(str(interrupt)) or 'interrupted'}", file=sys.stderr)
        return errors.INTERRUPTED
    except BrokenPipeError:
        return errors.FAILED
