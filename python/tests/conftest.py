"""Fixtures that the tests share."""

import os

import pytest


@pytest.fixture(name="program")
def _program() -> str:
    """Returns the path of vaecf_dist, which the variable VAECF_PROGRAM sets."""
    program = os.environ.get("VAECF_PROGRAM", "")
    if not program:
        pytest.skip("VAECF_PROGRAM is not set to vaecf_dist")
    return program
