"""Finding and running vaecf_dist, with scripts that stand in for it."""

import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import IO, Any

import pytest

import vaecf
from vaecf.errors import InputError, RunError, Stopped
from vaecf.program import find_config, find_program, launcher, run_program


def _script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\nimport pathlib, signal, sys, time\nif '--version' in sys.argv: sys.exit()\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the package, the interpreter, the user's packages and PATH are, without any program."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "prefix"))
    monkeypatch.setattr("sys.base_prefix", str(tmp_path / "prefix"))
    monkeypatch.setattr("site.getuserbase", lambda: str(tmp_path / "user"))
    monkeypatch.setattr("site.getusersitepackages", lambda: str(tmp_path / "user/packages"))
    monkeypatch.setattr("vaecf.program.__file__", str(tmp_path / "python/vaecf/program.py"))
    monkeypatch.delenv("VAECF_PROGRAM", raising=False)
    return tmp_path


def test_program_is_found_by_argument_variable_build_installation_and_path(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ["build/release/bin", "build/cuda/bin", "prefix/bin", "path"]
    # Not that of the current folder, which may be another user's, and no other build, as for launch/train.
    for name in ("", "build/debug/bin", "user/bin"):
        _script(nowhere / name / "vaecf_dist", "")
    with pytest.raises(InputError, match="vaecf_dist does not exist"):
        find_program()
    made = {name: _script(nowhere / name / "vaecf_dist", "") for name in [*order, "variable", "argument"]}
    for name in order:
        assert find_program() == made[name]
        Path(made[name]).unlink()
    monkeypatch.setenv("VAECF_PROGRAM", made["variable"])
    assert find_program() == made["variable"]
    assert find_program(made["argument"]) == made["argument"]
    with pytest.raises(InputError, match="missing does not exist; build it"):
        find_program("missing")


@pytest.mark.parametrize(
    ("package", "expected"),
    [("installed/share/vaecf_dist/python", "installed"), ("user/packages", "user"), ("prefix/packages", "prefix")],
)
def test_program_that_was_installed_with_the_package_comes_before_path(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, package: str, expected: str
) -> None:
    for folder in ("installed/bin", "user/bin", "prefix/bin", "path"):
        _script(nowhere / folder / "vaecf_dist", "")
    monkeypatch.setattr("vaecf.program.__file__", str(nowhere / package / "vaecf/program.py"))
    for base in ("prefix", "base"):  # in no virtual environment, and in one
        monkeypatch.setattr("sys.base_prefix", str(nowhere / base))
        assert find_program() == str(nowhere / expected / "bin/vaecf_dist")


def test_mpirun_of_a_virtual_environment_comes_first_as_if_it_was_active(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("prefix/bin", "path"):
        _script(nowhere / name / "mpirun", "")
    assert launcher(2, "mpirun -v") == ["mpirun", "-v", "-np", "2"]
    monkeypatch.setattr("sys.base_prefix", str(nowhere / "base"))
    assert launcher(2, "mpirun -v") == [str(nowhere / "prefix/bin/mpirun"), "-v", "-np", "2"]


def test_configuration_is_found_as_by_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, installed = tmp_path / "p/bin/vaecf_dist", tmp_path / "p/share/vaecf_dist/a.yaml"
    installed.parent.mkdir(parents=True)
    installed.touch()
    monkeypatch.chdir(tmp_path)
    assert [find_config(str(program), name) for name in ("a.yaml", "b.yaml")] == [str(installed), "b.yaml"]
    Path("a.yaml").touch()
    assert find_config(str(program), "a.yaml") == "a.yaml"


def test_exit_codes_are_exceptions_with_the_message(tmp_path: Path) -> None:
    program = _script(
        tmp_path / "p",
        "print('result'); print('vaecf_dist: said ' + sys.argv[2], file=sys.stderr); sys.exit(int(sys.argv[1]))",
    )
    assert run_program(["0", "ok"], program=program) == ("result\n", "vaecf_dist: said ok\n")
    for code, kind in ((1, RunError), (2, InputError), (75, Stopped)):
        with pytest.raises(kind, match="said so") as found:
            run_program([str(code), "so", "--set", "a=b"], program=program)
        assert "--set" not in str(found.value)
    for code, failure in ((1, RunError), (2, InputError)):
        script = f"sys.stderr.write('warning: a\\n  b\\nwarning: c\\nother\\nvaecf_dist: d\\n'); sys.exit({code})"
        with pytest.raises(failure, match="d$") as warned:
            run_program([], program=_script(tmp_path / "w", script))
        assert warned.value.warnings == ["a\n  b", "c"]


def test_program_is_killed_if_its_input_fails(tmp_path: Path) -> None:
    done = tmp_path / "done"
    program = _script(tmp_path / "p", f"text = sys.stdin.read(); pathlib.Path({str(done)!r}).write_text(text)")

    def fails(stream: IO[bytes]) -> None:
        stream.write(b"half")
        raise ValueError("no such column")

    with pytest.raises(ValueError, match="no such column"):
        run_program([], program=program, feed=fails)
    assert not done.exists()
    run_program([], program=program, feed=lambda stream: stream.write(b"whole"))
    assert done.read_text() == "whole"
    early = _script(
        tmp_path / "q", "sys.stdin.close(); print('vaecf_dist: line 1 is wrong', file=sys.stderr); sys.exit(2)"
    )
    with pytest.raises(InputError, match="line 1 is wrong"):
        run_program([], program=early, feed=lambda stream: stream.write(b"x" * 10**7))


def test_interrupt_is_passed_on_once_and_raised_after_the_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = _script(
        tmp_path / "p",
        f"""log = open({str(log)!r}, "a", buffering=1)
signal.signal(signal.SIGINT, lambda *_: log.write("INT\\n"))
log.write("began\\n")
while "INT" not in pathlib.Path(log.name).read_text(): time.sleep(0.05)
time.sleep(0.3)
log.write("ended\\n")
sys.exit(75)""",
    )

    def interrupt() -> None:
        end = time.monotonic() + 60
        while not log.exists() or not log.read_text():
            time.sleep(0.02)
            if time.monotonic() > end:
                return
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_program([], program=program)
    thread.join()
    assert log.read_text().split() == ["began", "INT", "ended"]


def test_second_interrupt_after_the_end_is_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = tmp_path / "ready"
    program = _script(
        tmp_path / "p",
        f"""signal.signal(signal.SIGINT, lambda *_: sys.exit(75))
pathlib.Path({str(ready)!r}).touch()
time.sleep(60)""",
    )
    wait = subprocess.Popen.wait

    def interrupted(process: Any, timeout: float | None = None) -> int:
        code = wait(process, timeout)
        monkeypatch.setattr(subprocess.Popen, "wait", wait)
        raise KeyboardInterrupt(code)

    def watch() -> None:
        if ready.exists():
            monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
            raise KeyboardInterrupt("first")

    with pytest.raises(KeyboardInterrupt, match="first"):
        run_program([], program=program, watch=watch)


def test_program_of_another_version_is_a_warning(tmp_path: Path) -> None:
    def program(name: str, version: str) -> str:
        text = f"#!/bin/sh\necho 'vaecf_dist {version}'\n"
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
        return str(tmp_path / name)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_program(["x"], program=program("same", f"{vaecf.__version__} (0123abc)"))
    other = program("other", "0.9.0")
    with pytest.warns(UserWarning, match=rf"other is version 0.9.0, but the package vaecf is {vaecf.__version__}; install"):
        run_program(["x"], program=other)


def test_program_that_cannot_start_now_is_an_error_with_code_3(tmp_path: Path) -> None:
    program = _script(tmp_path / "vaecf_dist", "print('vaecf_dist: x.h5: is in use', file=sys.stderr)\nsys.exit(3)")
    with pytest.raises(RunError, match="^x.h5: is in use$") as error:
        run_program([], program=program)
    assert error.value.code == 3 and isinstance(error.value, vaecf.Error)
