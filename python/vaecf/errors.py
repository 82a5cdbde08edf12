"""Errors of the package, and the exit codes of its commands."""

DONE, FAILED, INVALID, STOPPED = 0, 1, 2, 75


class InputError(Exception):
    """Wrong usage, configuration or input: exit code 2. The message says what to do."""
