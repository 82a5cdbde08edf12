"""Errors of the package, the exit codes of its commands, and what they print."""

import re
from typing import TextIO

DONE, FAILED, INVALID, STOPPED = 0, 1, 2, 75


class InputError(Exception):
    """Wrong usage, configuration or input: exit code 2. The message says what to do."""


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
