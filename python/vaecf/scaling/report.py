"""Compares measured runs with the predictions of the performance model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..errors import InputError
from .model import (
    Machine,
    ParallelConfig,
    Prediction,
    StepCost,
    break_even_users_per_rank,
    predict,
    users_below_which_slices_win,
)
from .probes import Probes, median
from .runs import RunRecord

NEARLY = 0.95  # share of a batch below which a warning is given
MAX_SPREAD = 1.5  # ratio of the fastest to the slowest run of a point above which the point is flagged
MAX_ERROR = 2.0  # ratio of predicted and measured users/s, or its inverse, above which a point is flagged


@dataclass(frozen=True)
class Stats:
    """The median and range of repeated runs."""

    median: float = 0.0
    low: float = 0.0
    high: float = 0.0
    repeats: int = 0

    @staticmethod
    def of(values: Sequence[float]) -> Stats:
        """Returns the spread of `values`; zeros if there are none."""
        return Stats(median(values), min(values), max(values), len(values)) if values else Stats()


@dataclass
class Point:
    """All runs with the same number of ranks, batch size and variant."""

    ranks: int
    batch_size: float
    variant: str
    users_per_second: Stats
    phase_seconds: dict[str, float]  # medians
    step_seconds: float  # median
    wire_bytes: float  # bytes that each rank sends in a step
    bus_rate: float = 0.0  # wire_bytes over the all-reduce time in bytes/s; 0: no such time
    # users/s over `ranks` times that of a single rank with the same users per rank (weak) or per step (strong)
    efficiency: Stats = field(default_factory=Stats)
    predicted: Prediction | None = None
    predicted_efficiency: float = 0.0  # efficiency computed from predictions only

    @property
    def name(self) -> str:
        """Is the name of the variant in reports."""
        return self.variant or "one rank"

    @property
    def prediction_error(self) -> float:
        """Is the relative error of the predicted users/s."""
        return self.predicted.users_per_second / self.users_per_second.median - 1.0 if self.predicted else 0.0

    @property
    def spread(self) -> float:
        """Is the ratio of the fastest to the slowest run."""
        return self.users_per_second.high / self.users_per_second.low if self.users_per_second.low > 0.0 else 1.0

    @property
    def misprediction(self) -> float:
        """Is the ratio of predicted and measured users/s, or its inverse if that is above 1; 1 without a prediction."""
        if not self.predicted or self.predicted.users_per_second <= 0.0:
            return 1.0
        ratio = self.predicted.users_per_second / self.users_per_second.median
        return max(ratio, 1.0 / ratio)

    @property
    def flags(self) -> list[str]:
        """Are the reasons not to rely on the point, and on its prediction."""
        flags = [f"runs differ {self.spread:.1f} times"] if self.spread > MAX_SPREAD else []
        return flags + ([f"prediction is off {self.misprediction:.1f} times"] if self.misprediction > MAX_ERROR else [])


@dataclass
class BreakEven:
    """The break-even point of the fastest variant that the model supports, at the largest number of ranks."""

    variant: str
    ranks: int
    users: float | None


@dataclass
class SlicesWin:
    """The users per step below which sharing the items between `ranks` ranks is faster than `variant`."""

    variant: str
    ranks: int
    users: float | None


@dataclass
class Report:
    """The content of a report."""

    version: str
    machine: str
    device: str
    precision: str
    threads: int
    ranks_per_host: int
    binding: str
    warnings: list[str]
    batch_size: float  # users per step over all ranks in strong scaling
    users_per_rank: float  # users per step and rank in weak scaling
    cost: StepCost
    probed: Machine  # rates measured with the largest number of ranks
    strong: list[Point] = field(default_factory=list)
    weak: list[Point] = field(default_factory=list)
    break_even: BreakEven | None = None
    slices_win: SlicesWin | None = None


def _require_same_settings(runs: Sequence[RunRecord]) -> None:
    """Throws InputError if runs differ in anything but ranks, batch size and variant, since the differences would be
    attributed to the number of ranks."""

    def require_equal(run: RunRecord, first: RunRecord, what: str, value: Callable[[RunRecord], object]) -> None:
        if value(run) != value(first):
            raise InputError(
                f"these runs cannot be compared: {what} is {value(first)} with {first.ranks} ranks and {value(run)} "
                f"with {run.ranks}; keep runs with other settings in another folder"
            )

    of_ranks = {run.ranks: run for run in reversed(runs)}
    for run in runs:
        require_equal(run, runs[0], "precision", lambda run: run.precision)
        require_equal(run, runs[0], "device", lambda run: run.device)
        require_equal(run, runs[0], "the number of threads per rank", lambda run: run.threads)
        require_equal(run, runs[0], "the number of parameters", lambda run: run.workload.parameters)
        require_equal(run, runs[0], "the version", lambda run: run.version)
        # The automatic size of buckets depends on the ranks.
        require_equal(run, of_ranks[run.ranks], "distributed.bucket_mib", lambda run: run.bucket_bytes / 1048576.0)


def _config_of(run: RunRecord) -> ParallelConfig:
    return ParallelConfig(
        run.ranks,
        run.users_per_step,
        run.optimizer == "sharded",
        run.wire == "bf16",
        run.overlap == "on",
        run.bucket_bytes,
        run.virtual_shards,
        run.item_slices,
    )


def _is_modeled(run: RunRecord) -> bool:
    """Returns whether the model supports the run; it does not support parameter servers."""
    return run.servers == 0 and (run.item_slices == 1 or run.workload.table_parameters > 0.0)


def _point_of(runs: Sequence[RunRecord], probes: Probes) -> Point:
    first = runs[0]
    phases = {phase: median([run.phase_seconds.get(phase, 0.0) for run in runs]) for phase in first.phase_seconds}
    point = Point(
        ranks=first.ranks,
        batch_size=first.batch_size,
        variant=first.variant,
        users_per_second=Stats.of([run.users_per_second for run in runs]),
        phase_seconds=phases,
        step_seconds=median([run.step_seconds for run in runs]),
        wire_bytes=first.wire_bytes,
    )
    waiting = phases.get("all-reduce", 0.0)
    if point.ranks > 1 and waiting > 0.0:
        point.bus_rate = point.wire_bytes / waiting
    if _is_modeled(first) and probes.cost().known and probes.has_link(first.ranks):
        config = replace(_config_of(first), users=median([run.users_per_step for run in runs]))
        point.predicted = predict(probes.cost(first.ranks), first.workload, probes.machine(first.ranks), config)
    return point


def _points_of(
    runs: Sequence[RunRecord], probes: Probes, alone: float, belongs: Callable[[RunRecord], bool]
) -> list[Point]:
    """Returns the points of the runs selected by `belongs`, by ranks and variant. `alone` is the batch size of the
    single-rank baseline. Throws InputError if that is missing."""
    groups: dict[tuple[str, int], list[RunRecord]] = {}
    for run in runs:
        if belongs(run):
            groups.setdefault((run.variant, run.ranks), []).append(run)
    points = [_point_of(groups[key], probes) for key in sorted(groups)]
    base = next((point for point in points if point.ranks == 1), None)
    if base is None:
        raise InputError(f"there is no single-rank run with {alone:.0f} users per step; add one, or choose another size")
    one = base.users_per_second.median
    one_predicted = base.predicted.users_per_second if base.predicted else 0.0
    for point in points:
        speed, ideal = point.users_per_second, point.ranks * one
        point.efficiency = Stats(speed.median / ideal, speed.low / ideal, speed.high / ideal, speed.repeats)
        if point.predicted and one_predicted > 0.0:
            point.predicted_efficiency = point.predicted.users_per_second / (point.ranks * one_predicted)
    return sorted(points, key=lambda point: point.ranks)


def _best_scaled_amount(runs: Sequence[RunRecord], users: Callable[[RunRecord], float]) -> float:
    """Returns the value of `users` (per step, or per step and rank) that a single rank and the most other numbers of
    ranks ran with; the larger one if there are several. Returns 0 if there is none."""
    ranks: dict[float, set[int]] = {}
    for run in runs:
        ranks.setdefault(float(math.floor(users(run) + 0.5)), set()).add(run.ranks)
    candidates = [(len(counts), amount) for amount, counts in ranks.items() if 1 in counts and len(counts) > 1]
    return max(candidates)[1] if candidates else 0.0


def _warn_of_placement(run: RunRecord, machine: str) -> list[str]:
    warnings = []
    if run.device == "cpu" and 0 < run.usable_cores < run.ranks_per_host * run.threads:
        warnings.append(
            f"{run.ranks_per_host} ranks of {run.threads} threads share {run.usable_cores} of the {run.cores} cores of "
            f"{run.host}: their results do not show scaling"
        )
    if run.ranks_per_gpu > 1:
        warnings.append(f"{run.ranks_per_gpu} of {run.ranks} ranks share one GPU: their results do not show scaling")
    if run.device == "cpu" and 0 < run.bound_cores < run.threads:
        warnings.append(
            f"with {run.ranks} ranks the launcher bound each to {run.bound_cores} cores, fewer than its {run.threads} threads"
        )
    if run.machine != machine:
        warnings.append(f"runs are of different machines: {machine}; and: {run.machine}")
    return warnings


def _warnings_of(runs: Sequence[RunRecord], probes: Probes) -> list[str]:
    warnings = [warning for run in runs for warning in _warn_of_placement(run, runs[0].machine)]
    for run in runs:
        if run.users_per_step < NEARLY * run.batch_size:
            warnings.append(
                f"a batch of {run.batch_size:.0f} does not divide an epoch well, or exceeds it: the measured steps have "
                f"{run.users_per_step:.0f} users on average"
            )
    alone = {run.batch_size for run in runs if run.ranks == 1}
    if len(alone) == 1:
        warnings.append(
            f"single-rank runs have only one batch size ({alone.pop():.0f} users per step), so fixed and per-user cost "
            "cannot be separated; predictions attribute all of it to the users"
        )
    if not probes.cost().known:
        warnings.append(
            "single-rank step times do not grow with the batch size, so nothing is predicted; measure longer (--seconds)"
        )
    for ranks in dict.fromkeys(run.ranks for run in runs):
        if not probes.has_link(ranks):
            warnings.append(
                f"latency and bandwidth cannot be separated from the all-reduces of {ranks} ranks: nothing is predicted for them"
            )
    points = [(run.ranks, run.batch_size, run.variant) for run in runs]
    if any(points.count(point) < 3 for point in set(points)):
        warnings.append("fewer than three repeats of some point: its spread is unknown")
    return list(dict.fromkeys(warnings))


def _warnings_of_points(points: Sequence[Point]) -> list[str]:
    """Counts the flagged points; one of strong and weak scaling is counted once."""

    def count(is_flagged: Callable[[Point], bool]) -> str:
        number = len({(point.ranks, point.batch_size, point.variant) for point in points if is_flagged(point)})
        return f"{number} point{'s' if number > 1 else ''}" if number else ""

    warnings = []
    if noisy := count(lambda point: point.spread > MAX_SPREAD):
        warnings.append(
            f"the runs of {noisy} differ by more than {MAX_SPREAD:g} times (see the tables): their medians are not reliable; "
            "measure them again on an idle machine"
        )
    if wrong := count(lambda point: point.misprediction > MAX_ERROR):
        warnings.append(f"the predictions of {wrong} are off by more than {MAX_ERROR:g} times (see the tables)")
    return warnings


def _add_limits(report: Report, runs: Sequence[RunRecord], probes: Probes, most: int) -> None:
    """Adds the break-even points of the fastest runs with `most` ranks."""
    known = [run for run in runs if run.ranks == most and _is_modeled(run)]
    if most < 2 or not known or not probes.cost().known or not probes.has_link(most):
        return
    cost, machine = probes.cost(most), probes.machine(most)
    best = max(known, key=lambda run: run.users_per_second)
    if best.item_slices == 1:
        users = break_even_users_per_rank(cost, best.workload, machine, _config_of(best))
        report.break_even = BreakEven(best.variant, most, users)
    divisible = [run for run in known if run.workload.table_parameters > 0.0]
    data = [run for run in divisible if run.item_slices == 1]
    if divisible:
        best = max(data or divisible, key=lambda run: run.users_per_second)
        users = users_below_which_slices_win(cost, best.workload, machine, _config_of(best))
        report.slices_win = SlicesWin(best.variant if data else "", most, users)


def make_report(runs: Sequence[RunRecord], batch_size: float = -1.0, users_per_rank: float = -1.0) -> Report:
    """Makes the report of `runs`, which must not be empty.

    `batch_size` and `users_per_rank` select the runs of strong and of weak scaling; a run may be part of both. 0 omits
    that part of the report; a negative value selects the value with the most different numbers of ranks. Throws
    InputError if there is no single-rank run, or if runs differ in version, device, precision, threads, model or bucket
    size.
    """
    _require_same_settings(runs)
    if batch_size < 0.0:
        batch_size = _best_scaled_amount(runs, lambda run: run.batch_size)
    if users_per_rank < 0.0:
        users_per_rank = _best_scaled_amount(runs, lambda run: run.batch_size / run.ranks)
    probes = Probes(runs)
    most = max(runs, key=lambda run: run.ranks)
    bound = 0 < most.bound_cores < most.cores
    report = Report(
        version=most.version,
        machine=most.machine,
        device=most.device,
        precision=most.precision,
        threads=most.threads,
        ranks_per_host=most.ranks_per_host,
        binding=(
            f"each rank bound to {most.bound_cores} of {most.cores} cores"
            if bound
            else f"ranks not bound, {most.cores} cores per host"
        ),
        warnings=_warnings_of(runs, probes),
        batch_size=batch_size,
        users_per_rank=users_per_rank,
        cost=probes.cost(),
        probed=probes.machine(most.ranks),
    )
    if batch_size > 0.0:
        report.strong = _points_of(runs, probes, batch_size, lambda run: abs(run.batch_size - batch_size) < 0.5)
    if users_per_rank > 0.0:
        report.weak = _points_of(
            runs, probes, users_per_rank, lambda run: abs(run.batch_size - users_per_rank * run.ranks) < 0.5
        )
    report.warnings += _warnings_of_points(report.strong + report.weak)
    _add_limits(report, runs, probes, most.ranks)
    return report
