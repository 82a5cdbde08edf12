"""Errors of the package, the exit codes of its commands, and what they print."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

DONE, FAILED, INVALID, BUSY, STOPPED, INTERRUPTED = 0, 1, 2, 3, 75, 130


def install(extra: str) -> str:
    """Returns the command that installs an extra of this distribution, whose wheel with CUDA has another name."""
    from importlib.metadata import packages_distributions

    return f"pip install '{packages_distributions().get('vaecf', ['vaecf-dist'])[0]}[{extra}]'"


class Error(Exception):
    """The base of all errors of this package."""

    code = FAILED
    """The exit code of a command that ends with this error."""
    warnings: Sequence[str] = ()
    """The warnings of vaecf_dist before the error."""
    log: str = ""
    """All that vaecf_dist wrote to standard error."""


class InputError(Error, ValueError):
    """Wrong usage, configuration or input: exit code 2. The message says what to do."""

    code = INVALID


class RunError(Error):
    """A run of vaecf_dist that failed: exit code 1, or a signal."""


class BusyError(RunError):
    """A run that could not start now, and changed nothing: exit code 3. A folder or file is in use, or memory is not free."""

    code = BUSY


class Stopped(Error):
    """A run of vaecf_dist that was stopped on request, with a checkpoint: exit code 75."""

    code = STOPPED
    folder: Path | None = None
    """The folder of the run, if it has one."""


def escape(text: str) -> str:
    """Returns the text without anything that controls a terminal, as vaecf_dist shows it: \\x1b for an escape."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", lambda found: ascii(found[0])[1:-1], text)


class EscapingStream:
    """A stream whose text is escaped, for a terminal."""

    def __init__(self, stream: TextIO):
        self.stream = stream

    def write(self, text: str) -> int:
        """Writes the escaped text."""
        return self.stream.write(escape(text))

    def flush(self) -> None:
        """Flushes the stream."""
        self.stream.flush()
