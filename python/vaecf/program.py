"""Finds and starts vaecf_dist."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shlex
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from . import __version__, errors
from .errors import BusyError, InputError, RunError, Stopped
from .files import file_version
from .yaml_files import flatten, parse_yaml

WARNING = re.compile(r"^warning: .*(?:\n[ ].*)*", re.MULTILINE)
"""A warning in a log of vaecf_dist, with the lines that belong to it."""

DEFAULT_MPIRUN = "mpirun --bind-to none --oversubscribe"


def _search_path() -> str:
    """Returns PATH with the folder of the interpreter's programs, in which mpirun may be: first if that is a virtual
    environment, as if it was active, else last."""
    folders, own = os.environ.get("PATH", os.defpath), f"{sys.prefix}/bin"
    order = [own, folders] if sys.prefix != sys.base_prefix else [folders, own]
    return os.pathsep.join(filter(None, order))


def find_program(program: str | Path | None = None) -> str:
    """Returns the path of vaecf_dist: `program`, the variable VAECF_PROGRAM, or else the first of that which was built in the
    checkout of the package (build/release, build/cuda) or installed with it, and of PATH.

    The same order is that of launch/train and of the batch files for Slurm. That of the current folder does not count, because
    others may have put it there."""
    package = Path(__file__).resolve().parent.parent
    named = str(program or os.environ.get("VAECF_PROGRAM", ""))
    folders = [package.parent / "build" / name for name in ("release", "cuda")]
    if package.parts[-3:] == ("share", "vaecf_dist", "python"):
        folders.append(package.parents[2])
    if package.is_relative_to(site.getusersitepackages()):
        folders.append(Path(site.getuserbase()))
    folders.append(Path(sys.prefix))
    for candidate in [named] if named else [*(str(folder / "bin/vaecf_dist") for folder in folders), "vaecf_dist"]:
        found = shutil.which(candidate, path=_search_path())
        if found:
            return found
    raise InputError(f"{named or 'vaecf_dist'} does not exist; build it (launch/build), or set VAECF_PROGRAM to its path")


@functools.cache
def _version_of(program: str, _: Any) -> str:
    """Returns the version that a program states; empty if it states none. The second argument changes with the file."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False)
    except (OSError, UnicodeDecodeError):
        return ""
    found = re.match(r"vaecf_dist (\S+)", said.stdout)
    return found[1] if found else ""


def checked_program(program: str | Path | None = None) -> str:
    """Returns the path that find_program() finds, and warns if that program's version is not the one of this package."""
    found = find_program(program)
    version = _version_of(found, file_version(found))
    if version not in ("", __version__):
        warnings.warn(
            f"{found} is version {version}, but the package vaecf is {__version__}; install both of one version", stacklevel=3
        )
    return found


def find_config(program: str, config: str) -> str:
    """Returns the path of a configuration as `program` finds it: in the current folder, else where it is installed."""
    installed = Path(program).resolve().parent.parent / "share" / "vaecf_dist" / config
    return str(installed) if not Path(config).exists() and installed.is_file() else config


def launcher(ranks: int, mpirun: str) -> list[str]:
    """Returns the command that starts a program on `ranks` ranks: none for a single rank."""
    if ranks == 1 and mpirun == DEFAULT_MPIRUN:
        return []
    command = [*shlex.split(mpirun), "-np", str(ranks)]
    found = shutil.which(command[0], path=_search_path())
    if found is None:
        remedy = "install MPI" if mpirun == DEFAULT_MPIRUN else "install it, or correct --mpirun"
        raise InputError(f"{command[0]} is not in PATH; {remedy}")
    # Open MPI 4 sets LD_LIBRARY_PATH if it is called with its path.
    return command if found == shutil.which(command[0]) else [found, *command[1:]]


def rank_environment(ranks: int, mpirun: str) -> dict[str, str]:
    """Returns the environment of a run, in which the program divides the cores of this machine among the ranks, unless
    OMP_NUM_THREADS is set."""
    environment = dict(os.environ)
    if mpirun == DEFAULT_MPIRUN:
        threads = int(environment.get("OMP_NUM_THREADS", "1"))
        if len(os.sched_getaffinity(0)) < ranks * threads:
            environment.setdefault("OMP_WAIT_POLICY", "passive")  # Spinning is very slow if ranks share cores.
        if os.geteuid() == 0:
            environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return environment


def settings_arguments(settings: dict[str, str]) -> list[str]:
    """Returns the arguments --set KEY=VALUE."""
    return [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]


def resolved_config(program: str, config: str, arguments: Sequence[str] = ()) -> dict[str, Any]:
    """Returns every key of a configuration with its value, by dotted key.

    `arguments` are --set KEY=VALUE pairs. Throws InputError with the message of vaecf_dist if anything is not valid.
    """
    command = [program, config, "--print-config", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise InputError(result.stderr.strip().removeprefix("vaecf_dist: ") or f"{program} failed")
    return flatten(parse_yaml(result.stdout))


def ending_with_python(command: Sequence[str], code: signal.Signals = signal.SIGUSR1) -> list[str]:
    """Returns a command whose program gets a signal when this process ends, even if that is killed.

    By default it stops a training with a checkpoint. The kernel may send the signal once for each thread of this process,
    and a second INT would end the training at once. setpriv of util-linux asks for it; where that is not installed, the
    command is returned as it is.
    """
    prefix = ["setpriv", "--pdeathsig", code.name.removeprefix("SIG")] if shutil.which("setpriv") else []
    return [*prefix, *command]


def message_of(log: str) -> str:
    """Returns the error that vaecf_dist wrote to its log, without the name of the program."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("vaecf_dist: ")] or lines
    return said[-1].removeprefix("vaecf_dist: ") if said else ""


def warnings_of(log: str) -> list[str]:
    """Returns the warnings that vaecf_dist wrote to its log with --quiet. Lines with blanks before them belong to the one before."""
    found: list[str] = []
    for line in log.splitlines():
        text = line.removeprefix("warning: ")
        if found and text.startswith(" "):
            found[-1] += f"\n{text}"
        else:
            found.append(text)
    return found


def warnings_among(log: str) -> list[str]:
    """Returns the warnings in a log of vaecf_dist that has other lines, too."""
    return warnings_of("\n".join(WARNING.findall(log)))


def run_program(
    arguments: Sequence[str],
    *,
    program: str | Path | None = None,
    ranks: int = 1,
    feed: Callable[[IO[bytes]], object] | None = None,
    watch: Callable[[], object] | None = None,
) -> tuple[str, str]:
    """Runs vaecf_dist and returns what it wrote to standard output and to standard error.

    `feed` writes to the standard input of the program; if it fails, the program is killed before its input ends, and the
    exception is raised. If this process is killed, the program is, too, or reads that its input is not complete. `watch`
    is called several times a second. An interrupt, such as Ctrl-C, stops the program with a checkpoint, if it trains, and
    raises KeyboardInterrupt after its end; a second one kills it. The end of this process stops it as an interrupt does.
    Throws InputError for exit code 2, BusyError for 3, Stopped for 75, and RunError for others; all but Stopped have the
    warnings and the log.
    """
    command = [*launcher(ranks, DEFAULT_MPIRUN), checked_program(program), *arguments]
    # Open MPI's mpirun passes USR1 on, but kills the ranks after INT.
    stop = signal.SIGKILL if feed is not None else signal.SIGUSR1 if ranks > 1 else signal.SIGINT
    environment = rank_environment(ranks, DEFAULT_MPIRUN)
    # In a session of its own, so that the interrupt of a terminal or notebook does not reach the program as a second one.
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as log,
        _pipe() as (done, finished),
        subprocess.Popen(
            ending_with_python(command, signal.SIGUSR1 if feed is None else signal.SIGKILL),
            stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
            stdout=out,
            stderr=log,
            start_new_session=True,
            env=environment if feed is None else {**environment, "VAECF_STDIN_DONE": str(done)},
            pass_fds=() if feed is None else (done,),
        ) as process,
    ):
        try:
            if feed is not None and process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):  # The program ended early, and its message says why.
                    feed(process.stdin)
                    process.stdin.flush()
                    os.write(finished, b"1")
                _close(process)
            while process.poll() is None:
                if watch is not None:
                    watch()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
        except BaseException as error:
            _end(process, stop if isinstance(error, KeyboardInterrupt) else signal.SIGKILL)
            _close(process)
            raise
        texts = []
        for file in (out, log):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "backslashreplace"))
    code, reason = process.returncode, message_of(texts[1])
    if code == errors.DONE:
        return texts[0], texts[1]
    if code == errors.STOPPED:
        raise Stopped(reason)
    failure: InputError | RunError = BusyError(reason) if code == errors.BUSY else InputError(reason)
    if code not in (errors.INVALID, errors.BUSY):
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        failure = RunError(f"vaecf_dist ended with {ended}: {reason}")
    failure.log = texts[1]
    failure.warnings = warnings_among(texts[1])
    raise failure


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """Returns the descriptors of a pipe, to read and to write, and closes them at the end."""
    descriptors = os.pipe()
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _close(process: subprocess.Popen[bytes]) -> None:
    """Closes the standard input of a program, which may have ended."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def _end(process: subprocess.Popen[bytes], code: signal.Signals) -> None:
    """Sends a signal to a program and waits for its end. A second interrupt kills it."""
    try:
        process.send_signal(code)
        process.wait()
    except KeyboardInterrupt:
        with contextlib.suppress(ProcessLookupError):  # It may have ended since.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
