"""The command `vaecf scaling`, which launch/scaling calls."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from .. import errors
from ..errors import InputError
from ..program import checked_program, resolved_config
from ..yaml_files import flatten, load_yaml
from .model import Link, Machine, ParallelConfig
from .report import make_report
from .runs import read_runs
from .text import predict_table, to_csv, to_json, to_table
from .workload import data_sizes, workload_of

MAX_RANKS = 1_000_000
WITHOUT_PLOTS = (
    "scaling.html and the plots require matplotlib (Debian, Ubuntu: apt-get install python3-matplotlib); "
    "wrote scaling.json and scaling.csv only"
)


def read_machine(file: str) -> Machine:
    """Reads the section `machine` of a file in configs/machines. Throws InputError if it is not valid."""
    content = load_yaml(file)
    values = flatten(content.get("machine", {})) if isinstance(content, dict) else {}
    links = {f"{link}.{key}" for link in ("within_host", "between_hosts") for key in ("latency", "bandwidth")}
    known = links | {field.name for field in fields(Machine) if field.name not in ("within_host", "between_hosts")}
    for key, value in values.items():
        if key not in known and values != {"": {}}:
            raise InputError(f"{file}: machine.{key} is not a key; use one of {', '.join(sorted(known))}")
        valid = key == "name" or (isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0)
        if not valid or (key == "overlap" and value > 1) or (key == "ranks_per_host" and (value < 1 or value != int(value))):
            raise InputError(f"{file}: machine.{key} has an invalid value, {value!r}")
    required = ("name", "flops", "memory_rate", "within_host.bandwidth", "between_hosts.bandwidth")
    if any(not values.get(key) for key in required):
        raise InputError(f"{file}: must set {', '.join(f'machine.{key}' for key in required)}; see configs/machines/")

    def link(name: str) -> Link:
        return Link(float(values.get(f"{name}.latency", 0.0)), float(values[f"{name}.bandwidth"]))

    return Machine(
        name=str(values["name"]),
        ranks_per_host=int(values.get("ranks_per_host", 1)),
        flops=float(values["flops"]),
        memory_rate=float(values["memory_rate"]),
        step_overhead=float(values.get("step_overhead", 0.0)),
        overlap=float(values.get("overlap", 0.0)),
        within_host=link("within_host"),
        between_hosts=link("between_hosts"),
    )


def parse_ranks(text: str | None) -> list[int]:
    """Returns the numbers of --ranks. Throws InputError if they are not valid."""
    if not text:
        raise InputError("--predict: requires --ranks, e.g. --ranks 8,64,512")
    for part in text.split(","):
        if not re.fullmatch(r"\d{1,9}", part) or not 1 <= int(part) <= MAX_RANKS:
            raise InputError(f"--ranks: must be between 1 and {MAX_RANKS}, got {part}")
    return [int(part) for part in text.split(",")]


def parallel_config(config: Mapping[str, Any], ranks: list[int]) -> ParallelConfig:
    """Returns the configuration of data parallelism, with `item_slices` 0 for all. Throws InputError if it cannot be
    predicted."""
    if config["distributed.strategy"] != "allreduce":
        raise InputError(
            f"distributed.strategy: {config['distributed.strategy']} cannot be predicted, only allreduce; "
            "measure it (launch/scaling --variants ps)"
        )
    item_slices = config.get("distributed.item_slices", 1)
    if item_slices == "auto":
        raise InputError("distributed.item_slices: auto cannot be predicted; set a number or all")
    item_slices = 0 if item_slices == "all" else int(item_slices)
    for count in ranks:
        if item_slices and count % item_slices:
            raise InputError(f"distributed.item_slices: {item_slices} does not divide {count} ranks; set a divisor, or all")
    return ParallelConfig(
        users=float(config["train.batch_size"]),
        sharded=config["distributed.optimizer_state"] == "sharded",
        bf16_comm=config["distributed.comm_dtype"] == "bf16",
        overlap=config["distributed.overlap"] is not False,
        bucket_bytes=0.0 if (mib := config["distributed.bucket_mib"]) == "auto" else 1048576.0 * float(mib),
        ring=config["distributed.algorithm"] == "ring" or config["train.deterministic"] is True,
        virtual_shards=int(config["data.virtual_shards"]),
        item_slices=item_slices,
    )


def _predict(options: argparse.Namespace) -> int:
    settings = [argument for value in options.set for argument in ("--set", value)]
    config = resolved_config(checked_program(options.program), options.path, settings)
    machine = read_machine(options.predict)
    ranks = parse_ranks(options.ranks)
    parallel = parallel_config(config, ranks)
    sizes = data_sizes(config, options.path, options.items, options.interactions_per_user)
    print(predict_table(machine, workload_of(config, sizes), parallel, ranks), end="")
    most, shards = max(ranks), parallel.virtual_shards
    if most > shards * max(1, parallel.item_slices or most):
        print(f"  {most} ranks require data.virtual_shards of at least {most}, preferably a multiple; it is {shards}")
    return errors.DONE


def _report(options: argparse.Namespace) -> int:
    report = make_report(read_runs(options.path), options.batch, options.users_per_rank)
    folder = Path(options.path)
    (folder / "scaling.json").write_text(to_json(report), encoding="utf-8")
    (folder / "scaling.csv").write_text(to_csv(report), encoding="utf-8")
    print(to_table(report), end="")
    try:
        from .page import write_page  # pylint: disable=import-outside-toplevel
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        print(f"vaecf: {WITHOUT_PLOTS}", file=sys.stderr)
        return errors.DONE
    write_page(report, folder)
    print(f"wrote {folder}/scaling.{{json,csv,html}} and the plots scaling-*.svg")
    return errors.DONE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `vaecf scaling`."""
    add = parser.add_argument
    add("path", metavar="FOLDER|CONFIG.yaml", help="folder of launch/scaling; with --predict: configuration to predict")
    add("--batch", type=float, help="users per step of strong scaling; 0: none (default: that of most runs)")
    add("--users-per-rank", type=float, help="users per step and rank of weak scaling; 0: none (default: that of most runs)")
    add("--predict", metavar="MACHINE.yaml", help="predict for the machine that this file describes")
    add("--ranks", help="numbers of ranks to predict, e.g. 8,64")
    add("--items", type=int, default=0, help="number of items; with --interactions-per-user instead of data.file")
    add("--interactions-per-user", type=float, default=0.0, help="mean; with --items instead of data.file")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="with --predict: change the configuration")
    add("--program", metavar="FILE", help="path of vaecf_dist (default: VAECF_PROGRAM, that of this package, PATH)")


def run(options: argparse.Namespace) -> int:
    """Runs `vaecf scaling`. Returns the exit code."""
    for name in ("batch", "users_per_rank"):
        value = getattr(options, name)
        if value is not None and (value < 0 or options.predict):
            problem = "not with --predict; use --set train.batch_size=N" if options.predict else "must be at least 0"
            raise InputError(f"--{name.replace('_', '-')}: {problem}")
        setattr(options, name, -1.0 if value is None else value)
    return _predict(options) if options.predict else _report(options)
