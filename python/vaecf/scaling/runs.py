"""Reads the `benchmark` events of many runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from .model import Workload

# The phases of a step in order, with the names in benchmark events.
PHASES = ("input", "forward", "loss", "backward", "all-reduce", "optimizer")
NONSENSE = 1e15  # users/s above which a record is ignored


@dataclass
class RunRecord:
    """The content of one `benchmark` event; docs/SCALING.md describes the fields."""

    version: str = ""
    machine: str = ""
    host: str = ""
    device: str = ""
    precision: str = ""
    optimizer: str = "replicated"
    wire: str = "fp32"
    overlap: str = "off"
    servers: int = 0  # number of parameter servers among the ranks
    server_updates: str = ""
    item_slices: int = 1  # ranks of a model-parallel group, which share the items
    ranks: int = 1
    ranks_per_host: int = 1
    threads: int = 1
    ranks_per_gpu: int = 0  # maximum over GPUs; 0 on the CPU
    cores: int = 0  # cores of the host
    usable_cores: int = 0  # cores in the combined affinity mask of the host's ranks
    bound_cores: int = 0  # cores in the affinity mask of a rank
    batch_size: float = 0.0
    users_per_step: float = 0.0  # mean; the last step of an epoch may have fewer users
    virtual_shards: int = 0
    users_per_second: float = 0.0
    step_seconds: float = 0.0
    phase_seconds: dict[str, float] = field(default_factory=dict)
    wire_bytes: float = 0.0  # bytes that each rank sends in a step
    bucket_bytes: float = 4 * 1048576.0
    gemm_rate: float = 0.0  # FLOP/s of all ranks, measured concurrently
    memory_rate: float = 0.0  # bytes/s of all ranks, measured concurrently
    single_rank_update_bytes: float = 0.0  # memory traffic of an update in a single-rank run
    workload: Workload = field(default_factory=Workload)
    all_reduce: list[tuple[float, float]] = field(default_factory=list)  # (bytes, seconds)

    @property
    def variant(self) -> str:
        """Is the name of the configuration: "replicated fp32", "sharded bf16 overlap", "items fp32", "1 server
        asynchronous fp32"; empty for a single rank."""
        if self.ranks == 1:
            return ""
        if self.servers > 0:
            return f"{self.servers} server{'' if self.servers == 1 else 's'} {self.server_updates} {self.wire}"
        if self.item_slices == self.ranks:
            return f"items {self.wire}"
        sliced = f"{self.item_slices} item slices " if self.item_slices > 1 else ""
        return f"{sliced}{self.optimizer} {self.wire}{' overlap' if self.overlap == 'on' else ''}"


def _number(event: dict[str, Any], key: str, otherwise: float = 0.0) -> float:
    value = event.get(key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else otherwise


def _text(event: dict[str, Any], key: str, otherwise: str = "") -> str:
    value = event.get(key)
    return value if isinstance(value, str) else otherwise


def _phase_seconds(event: dict[str, Any], phase: str) -> float:
    phases = event.get("phase_seconds")
    return _number(phases, phase.replace("-", "_")) if isinstance(phases, dict) else 0.0


def record_of(event: dict[str, Any]) -> RunRecord:
    """Returns the record of a `benchmark` event."""
    precision = _text(event, "precision")
    ranks = int(_number(event, "ranks", 1))
    batch_size = _number(event, "batch_size")
    cores = int(_number(event, "cores"))
    probes = event.get("all_reduce", [])
    widths = _number(event, "item_widths")
    return RunRecord(
        version=_text(event, "version"),
        machine=_text(event, "machine"),
        host=_text(event, "host"),
        device=_text(event, "device"),
        precision=precision,
        optimizer=_text(event, "optimizer_state", "replicated"),
        wire=_text(event, "wire", "fp32"),
        overlap="on" if event.get("overlap") is True else "off",
        servers=int(_number(event, "servers")),
        server_updates=_text(event, "server_updates"),
        item_slices=max(1, int(_number(event, "item_slices", 1))),
        ranks=ranks,
        ranks_per_host=int(_number(event, "ranks_per_host", ranks)),
        threads=int(_number(event, "threads", 1)),
        ranks_per_gpu=int(_number(event, "ranks_per_gpu")),
        cores=cores,
        usable_cores=int(_number(event, "usable_cores", cores)),
        bound_cores=int(_number(event, "bound_cores")),
        batch_size=batch_size,
        users_per_step=_number(event, "users_per_step", batch_size),
        virtual_shards=int(_number(event, "virtual_shards")),
        users_per_second=_number(event, "users_per_second"),
        step_seconds=_number(event, "step_seconds"),
        phase_seconds={phase: _phase_seconds(event, phase) for phase in PHASES},
        wire_bytes=_number(event, "wire_bytes"),
        bucket_bytes=_number(event, "bucket_bytes", 4.0 * 1048576.0),
        gemm_rate=_number(event, "gemm_flop_per_second"),
        memory_rate=_number(event, "memory_peak_bytes_per_second"),
        single_rank_update_bytes=_number(event, "update_bytes"),
        workload=Workload(
            parameters=_number(event, "parameters"),
            dense_weights=_number(event, "dense_weights"),
            half_copy_bytes=2.0 if precision in ("bf16", "fp16") else 0.0,
            table_parameters=_number(event, "items") * (widths + 1.0) if widths > 0.0 else 0.0,
            table_widths=widths,
            gathered_bytes=2.0 if event.get("device") == "cuda" and precision in ("bf16", "fp16") else 4.0,
        ),
        all_reduce=[(_number(p, "bytes"), _number(p, "seconds")) for p in probes if isinstance(p, dict)],
    )


def _events(path: Path) -> list[dict[str, Any]]:
    events = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue  # the incomplete last line of an interrupted run
        if isinstance(event, dict):
            events.append(event)
    return events


def read_runs(folder: str | Path) -> list[RunRecord]:
    """Reads the benchmark events of every metrics.jsonl in `folder` and in its direct subfolders. Throws InputError if
    there are none."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: not a folder; pass the folder written by launch/scaling")
    parents = [folder, *(entry for entry in folder.iterdir() if entry.is_dir())]
    runs = []
    for log in sorted(str(parent / "metrics.jsonl") for parent in parents if (parent / "metrics.jsonl").is_file()):
        for event in _events(Path(log)):
            if event.get("event") != "benchmark":
                continue
            run = record_of(event)
            speed = 0.0 < run.users_per_second < NONSENSE
            if speed and run.step_seconds > 0.0 and run.users_per_step > 0.0 and run.ranks > 0:
                runs.append(run)
    if not runs:
        raise InputError(
            f"{folder}: no metrics.jsonl in this folder or its subfolders contains an event `benchmark`; "
            "create one with vaecf_dist CONFIG --benchmark or launch/scaling"
        )
    return runs
