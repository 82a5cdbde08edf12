"""Finds and starts vaecf_dist."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from .errors import InputError
from .yaml_files import flatten, parse_yaml

DEFAULT_MPIRUN = "mpirun --bind-to none --oversubscribe"


def find_program(program: str | None) -> str:
    """Returns the path of vaecf_dist: `program`, or as built in the current folder, or in PATH."""
    for candidate in [program] if program else ["build/release/bin/vaecf_dist", "build/cuda/bin/vaecf_dist", "vaecf_dist"]:
        found = shutil.which(candidate)
        if found:
            return found
    raise InputError(f"{program or 'vaecf_dist'} does not exist; build it (launch/build), or set --program")


def launcher(ranks: int, mpirun: str) -> list[str]:
    """Returns the command that starts a program on `ranks` ranks: none for a single rank."""
    if ranks == 1 and mpirun == DEFAULT_MPIRUN:
        return []
    command = [*shlex.split(mpirun), "-np", str(ranks)]
    if shutil.which(command[0]) is None:
        raise InputError(f"{command[0]} is not in PATH; install MPI, or set --mpirun")
    return command


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
        raise InputError(result.stderr.strip().removeprefix("vaecf_dist: ") or f"{shlex.join(command)} failed")
    return flatten(parse_yaml(result.stdout))
