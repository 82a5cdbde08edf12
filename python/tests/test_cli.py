"""The command line `vaecf`: what it prints from files and names."""

import io
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from vaecf.cli import main
from vaecf.errors import escape

RED = "\x1b[31m"


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


def _write(path: Path) -> str:
    with h5py.File(path, "w") as file:
        file.attrs.update(model=f"ease{RED}", checkpoint=f"{RED}.h5", metrics="ndcg@10", groups="")
        file.attrs["dataset_checksum"] = "1"
        file["user_id"] = np.arange(3)
        file["ndcg@10"] = [0.1, 0.2, 0.3]
    return str(path)


def test_control_characters_are_escaped() -> None:
    assert escape("a\x1b[2J\x07\r\x7f\x9b\udce9") == r"a\x1b[2J\x07\r\x7f\x9b\udce9"
    assert escape("é \n\t\\") == "é \n\t\\"


def test_errors_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / RED)]) == 2
    error = capsys.readouterr().err
    assert RED not in error and r"\x1b[31m" in error


def test_names_are_escaped_on_a_terminal_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [_write(tmp_path / f"{name}{RED}.h5") for name in "ab"]
    for stream, shown in ((Terminal(), r"\x1b[31m"), (io.StringIO(), RED)):
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["compare", *files]) == 0
        assert sys.stdout is stream
        assert shown in stream.getvalue() and (RED in stream.getvalue()) == (shown == RED)
