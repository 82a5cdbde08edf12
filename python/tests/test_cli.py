"""The command line `vaecf`: what it prints from files and names."""

import io
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import Workspace

import vaecf
from vaecf.cli import COMMANDS, main
from vaecf.errors import escape

# Two runs of this file.
ONCE = [("once", ["train.epochs=1"]), ("twice", ["train.epochs=2"])]
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


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"vaecf {vaecf.__version__}\n"


def test_package_is_imported_without_its_libraries() -> None:
    heavy = "{'numpy', 'pandas', 'scipy', 'h5py', 'matplotlib', 'pyarrow'} & set(sys.modules)"
    code = f"import sys, vaecf; print({heavy}); vaecf.Model, vaecf.train, vaecf.compare, vaecf.escaped; print('matplotlib' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split("\n") == ["set()", "False", ""]


def test_package_without_its_libraries_says_what_to_install(tmp_path: Path) -> None:
    package = Path(vaecf.__file__).parent.parent
    (tmp_path / "vaecf").write_text("import sys\nfrom vaecf.cli import main\nsys.exit(main())\n")
    sentence = r"vaecf requires numpy, .*; install them with: pip install 'vaecf-dist\[python\]'\n"
    # Without the module site, Python finds only its own modules and those of PYTHONPATH.
    for arguments, code, output in (
        (["-c", "import vaecf"], 1, rf"(?s)Traceback .*\nImportError: {sentence}"),
        (["-c", "from vaecf import Run"], 1, rf"(?s)Traceback .*\nImportError: {sentence}"),
        ([str(tmp_path / "vaecf"), "report"], 2, sentence),
        (["-m", "vaecf", "--version"], 2, sentence),
    ):
        command = [sys.executable, "-S", *arguments]
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env={"PYTHONPATH": str(package)}
        )
        assert (result.returncode, result.stdout) == (code, "")
        assert re.fullmatch(output, result.stderr), result.stderr


def test_commands_replace_no_function(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VAECF_PROGRAM", workspace.program)
    runs = [str(workspace.train(name, settings, "--per-user", f"runs/{name}/per-user.h5")) for name, settings in ONCE]
    data = str(workspace.folder / "data.h5")
    page, files = str(tmp_path / "r.html"), [f"{run}/per-user.h5" for run in runs]
    assert main(["report", *runs, "-o", page]) == main(["compare", *files]) == 0
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"usage: vaecf {command}" in capsys.readouterr().out
    for name in vaecf.__all__:
        assert callable(getattr(vaecf, name)), name
    assert vaecf.leaderboard(runs).xs("once", level="model").notna().all(axis=None)
    assert vaecf.compare(*runs).index.names == ["run", "metric"]
    vaecf.report(runs).save(page)
    train = {"epochs": 1, "directory": tmp_path, "progress": False}
    assert vaecf.train(data, model="item_knn", **train).model().recommend(np.eye(1, 120)).shape == (10, 3)
    assert vaecf.escaped("a") == "a" and vaecf.Dataset(data).n_items == 120


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


def test_interrupt_is_an_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("vaecf.commands.report.run", interrupted)
    assert main(["report", "runs/x"]) == 130
    assert capsys.readouterr().err == "vaecf: interrupted\n"


@pytest.mark.parametrize(
    ("option", "arguments"),
    [
        ("--file", ["prepare", "x.csv", "--fil", "d.h5", "--user", "u", "--item", "i"]),
        ("--search", ["sweep", "c.yaml", "--sear", "s.yaml"]),
    ],
)
def test_options_are_not_abbreviated(
    option: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert f"the following arguments are required: {option}" in capsys.readouterr().err


def test_errors_have_one_base() -> None:
    for error, code in ((vaecf.InputError, 2), (vaecf.RunError, 1), (vaecf.Stopped, 75)):
        assert issubclass(error, vaecf.Error) and error.code == code
    assert issubclass(vaecf.InputError, ValueError)
