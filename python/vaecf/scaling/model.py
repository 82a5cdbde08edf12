"""A performance model of training on many ranks: the cost of a step on one rank, the communication, and the predicted
speed for any number of ranks. docs/SCALING.md contains the derivation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..errors import InputError

ROUNDING_BYTES = 12.0  # memory traffic per element of the casts to bf16 and back
FLOP_PER_WEIGHT = 6.0  # 2 forward, 4 backward
# Fraction of the forward and backward time after the output layer's weight gradient is complete: the gradient of the
# hidden layer, a third of the arithmetic, and the layers before it.
AFTER_FIRST_GRADIENT = 0.35
CACHED_GRADIENT = 16.0 * 1048576.0  # bytes of a gradient up to which it is read, and gathered, in fp32
BREAK_EVEN_GAIN = 1.1  # minimum speedup by twice the ranks
SAME_SIZES = 0.01  # variance over squared mean below which sizes count as equal
CLEARLY_LONGER = 2.0


@dataclass(frozen=True)
class Workload:
    """The machine-independent cost of a training step."""

    parameters: float = 0.0  # number of weights and biases
    dense_weights: float = 0.0  # number of weights of all layers that are computed by GEMMs
    bytes_per_user: float = 0.0  # memory traffic of activations, logits and gathered rows
    half_copy_bytes: float = 0.0  # size of the 16-bit copy of a weight: 2 in bf16 and fp16, otherwise 0
    table_parameters: float = 0.0  # those of the parameters that belong to one item each; 0: unknown
    table_widths: float = 0.0  # sum of the widths of the first and the last hidden activations
    gathered_bytes: float = 4.0  # of an activation that item slices gather: 2 on a GPU in bf16 and fp16

    def update_bytes(self) -> float:
        """Returns the memory traffic in bytes of an update of all weights: weights, two moments and gradients are each
        read and written once, 16-bit copies are written once."""
        return self.parameters * (32.0 + self.half_copy_bytes)


@dataclass(frozen=True)
class Link:
    """A connection between two ranks: a message of n bytes takes latency + n / bandwidth seconds."""

    latency: float = 0.0  # seconds
    bandwidth: float = 0.0  # bus bandwidth in bytes/s per rank


@dataclass(frozen=True)
class Machine:
    """The rates of one rank while all ranks of its host are busy."""

    name: str = ""
    ranks_per_host: int = 1
    flops: float = 0.0  # FLOP/s of GEMMs
    memory_rate: float = 0.0  # bytes/s
    step_overhead: float = 0.0  # fixed seconds per step
    # The fraction of the time after the output layer's gradient is complete that can hide communication: 1 if the
    # network works independently, 0 if communication needs the compute cores.
    overlap: float = 0.0
    within_host: Link = field(default_factory=Link)
    between_hosts: Link = field(default_factory=Link)


@dataclass(frozen=True)
class StepCost:
    """The seconds of one rank's step without communication: fixed + per_user * users + update."""

    fixed: float = 0.0
    per_user: float = 0.0
    update: float = 0.0  # update of all weights, with gradients in memory
    update_single_rank: float = 0.0  # update of a single-rank run, which may use gradients in cache

    @property
    def known(self) -> bool:
        """Is false if measured steps did not determine the cost of a user, so that no prediction is possible."""
        return self.per_user > 0.0


@dataclass(frozen=True)
class ParallelConfig:
    """The configuration of a run on many ranks."""

    ranks: int = 1
    users: float = 0.0  # users per step over all ranks
    sharded: bool = False
    bf16_comm: bool = False
    overlap: bool = False
    bucket_bytes: float = 0.0  # size of an fp32 gradient bucket; 0: automatic
    # Number of virtual shards, which are assigned to ranks as a whole, so that some ranks have one more than others.
    # If it is less than `ranks`, all ranks have the same number of users.
    virtual_shards: int = 0
    item_slices: int = 1  # ranks that share the items; ranks / item_slices groups share the users
    ring: bool = True  # all-reduces are rings; otherwise the faster of a ring and a tree, as NCCL chooses

    @property
    def model_parallel_groups(self) -> int:
        """Is the number of model-parallel groups, which share the users."""
        return self.ranks // self.item_slices


@dataclass(frozen=True)
class Prediction:
    """The predicted seconds of a step and their parts."""

    compute: float = 0.0  # forward and backward pass
    update: float = 0.0
    communication: float = 0.0  # communication that the backward pass does not hide
    wire_bytes: float = 0.0  # bytes that each rank sends per step
    users: float = 0.0

    @property
    def seconds(self) -> float:
        """Is the duration of a step."""
        return self.compute + self.update + self.communication

    @property
    def users_per_second(self) -> float:
        """Is the speed of all ranks together."""
        return self.users / self.seconds


def step_cost(machine: Machine, workload: Workload) -> StepCost:
    """Computes the step cost from the rates of a machine, with 6 operations per dense weight and user."""
    update = workload.update_bytes() / machine.memory_rate
    per_user = FLOP_PER_WEIGHT * workload.dense_weights / machine.flops + workload.bytes_per_user / machine.memory_rate
    return StepCost(machine.step_overhead, per_user, update, update)


def _fit_line(samples: Sequence[tuple[float, float, float]], offset_if_one: float) -> tuple[float, float]:
    """Fits offset + slope * x, offset >= 0, to (x, y, weight). If all x are equal, the offset is `offset_if_one`."""
    weights = sum(w for _, _, w in samples)
    x_mean = sum(w * x for x, _, w in samples) / weights
    y_mean = sum(w * y for _, y, w in samples) / weights
    covariance = sum(w * (x - x_mean) * (y - y_mean) for x, y, w in samples)
    variance = sum(w * (x - x_mean) ** 2 for x, _, w in samples)
    if variance <= SAME_SIZES * weights * x_mean * x_mean:
        offset = min(offset_if_one, y_mean)
        return offset, (y_mean - offset) / x_mean
    slope = covariance / variance
    offset = y_mean - slope * x_mean
    if offset >= 0.0:
        return offset, slope
    # A negative offset is impossible: fit a line through the origin instead.
    return 0.0, (covariance + weights * x_mean * y_mean) / (variance + weights * x_mean * x_mean)


def fit_step_cost(steps: Sequence[tuple[float, float]], update: float, update_single_rank: float) -> StepCost:
    """Fits fixed and per-user cost to (users, seconds) of single-rank steps by least squares.

    At least two batch sizes are needed to separate the two; with one, everything but the update is attributed to the
    users. `update_single_rank` seconds of the fixed part are attributed to the update. If the fixed part is shorter,
    `update` and `update_single_rank` are scaled down by the same factor. `per_user` is 0 if steps with more users took
    no longer. Throws InputError if `steps` is empty.
    """
    if not steps:
        raise InputError("no steps of a single rank were measured; measure them with mpirun -np 1")
    samples = [(users, seconds, 1.0 / (seconds * seconds)) for users, seconds in steps]
    offset, slope = _fit_line(samples, update_single_rank)
    # The update cannot take longer than the part of the step that is independent of users. Caches may make it faster
    # than the memory bandwidth implies, in single-rank and in parallel runs.
    alone = min(offset, update_single_rank)
    faster = alone / update_single_rank if update_single_rank > 0.0 else 1.0
    return StepCost(offset - alone, max(0.0, slope), faster * update, alone)


def fit_link(probes: Sequence[tuple[float, float]], ranks: int) -> Link | None:
    """Fits a link to (bytes, seconds) of all-reduces of `ranks` ranks.

    A ring has 2 (R - 1) latencies and transfers 2 (R - 1) / R of the bytes. The fastest all-reduce determines the
    latency; the largest, which exceeds the caches, the bandwidth. Returns None if the largest took less than twice as
    long as the fastest, or if there are not two sizes.
    """
    sizes = [size for size, _ in probes]
    if ranks < 2 or not sizes or min(sizes) >= max(sizes):
        return None
    # A shorter message cannot take longer than a longer one, so each time is bounded by those of all larger sizes.
    shortest = min(seconds for _, seconds in probes)
    longest = min(seconds for size, seconds in probes if size >= max(sizes))
    if not shortest > 0.0 or longest < CLEARLY_LONGER * shortest:
        return None
    moved = _hops(ranks) / ranks * max(sizes)
    return Link(shortest / _hops(ranks), moved / (longest - shortest))


def _hops(ranks: int) -> float:
    """Returns the messages of a ring all-reduce: two passes (reduce-scatter and all-gather) of R - 1."""
    return 2.0 * (ranks - 1.0)


def sums_in_ring(machine: Machine, config: ParallelConfig) -> bool:
    """Returns whether gradients are summed in a ring: over MPI always, and with a sharded optimizer, since reduce-scatters
    and all-gathers are."""
    return config.ring or config.sharded or machine.overlap == 0.0


def bucket_bytes(machine: Machine, config: ParallelConfig) -> float:
    """Returns the size of a bucket, which is chosen as by bucket_bytes() in src/comm/distributed_options.cpp if it is automatic.
    A network that works independently is one between GPUs."""
    if config.bucket_bytes > 0.0:
        return config.bucket_bytes
    if machine.overlap == 0.0:
        return 4.0 * 1048576.0
    return (32.0 if _hosts(machine, config.ranks) == 1 else 64.0) * 1048576.0


def _sum_latency(machine: Machine, config: ParallelConfig, ranks: int, hosts: int) -> float:
    """Returns the latency in seconds of the sum of one bucket over `ranks` ranks. A tree goes up and down, in each host
    along a chain of its ranks."""
    ring = _ring_latency(machine, ranks, hosts)
    if sums_in_ring(machine, config):
        return ring
    chain = math.ceil(ranks / hosts) - 1
    tree = 2.0 * (math.ceil(math.log2(hosts)) * machine.between_hosts.latency + chain * machine.within_host.latency)
    return min(ring, tree)


def _ring_latency(machine: Machine, ranks: int, hosts: int) -> float:
    """Returns the latency in seconds of a ring all-reduce of one bucket. One hop per host goes to another host."""
    between = min(hosts, ranks - 1) if hosts > 1 else 0
    return 2.0 * (between * machine.between_hosts.latency + max(0, ranks - 1 - between) * machine.within_host.latency)


def _bandwidth(machine: Machine, hosts: int, rings: int = 1) -> float:
    """Returns the bandwidth of each of `rings` concurrent rings over `hosts` hosts."""
    within = machine.within_host.bandwidth
    return within if hosts <= 1 else min(within, machine.between_hosts.bandwidth / rings)


def _hosts(machine: Machine, ranks: int) -> int:
    return -(-ranks // machine.ranks_per_host)


def max_users_per_rank(config: ParallelConfig) -> float:
    """Returns the users per step of the rank, or of the ranks of the model-parallel group, with the most users."""
    shards, groups = config.virtual_shards, config.model_parallel_groups
    together = config.users / groups if shards < groups else config.users * -(-shards // groups) / shards
    return together / config.item_slices


def sent_bytes(workload: Workload, config: ParallelConfig) -> dict[str, float]:
    """Returns the bytes that each rank sends in a step by kind; it receives as many.

    With item slices, each rank of a model-parallel group holds every S-th item. Activations of its b users are summed in
    fp32 and gathered at both ends of the network; `softmax` are the maximum and the sum of every user, gathered once.
    Only gradients of the other layers, `middle`, are summed over all ranks, and those of the items, `tables`, over the
    model-parallel groups.
    """
    ranks, item_slices, groups = config.ranks, config.item_slices, config.model_parallel_groups
    if ranks == 1:
        return {}
    width = 2.0 if config.bf16_comm else 4.0
    if item_slices == 1:
        return {"gradient": _hops(ranks) / ranks * workload.parameters * width}
    users = config.users / groups
    middle = workload.parameters - workload.table_parameters
    # As reads_half_gradient() in include/vaecf/device/model_parallel_group.hpp; both ends are taken as equally wide.
    gradient = 4.0 * users * workload.table_widths / 2.0
    gathered = (workload.gathered_bytes + (workload.gathered_bytes if gradient > CACHED_GRADIENT else 4.0)) / 2.0
    return {
        "activations": (4.0 + gathered) * workload.table_widths * users * (item_slices - 1) / item_slices,
        "softmax": 8.0 * users * (item_slices - 1),
        "middle": _hops(ranks) / ranks * middle * width,
        "tables": _hops(groups) / groups * workload.table_parameters / item_slices * width,
    }


def predict(cost: StepCost, workload: Workload, machine: Machine, config: ParallelConfig) -> Prediction:
    """Predicts a step of `config`. `cost` and `machine` describe one of its ranks."""
    compute = cost.fixed + cost.per_user * max_users_per_rank(config)
    if config.ranks == 1:
        return Prediction(compute, cost.update_single_rank, 0.0, 0.0, config.users)
    sent = sum(sent_bytes(workload, config).values())
    if config.item_slices > 1:
        update, communication = _sliced(cost, workload, machine, config)
        return Prediction(compute, update, communication, sent, config.users)
    update = cost.update / (config.ranks if config.sharded else 1)
    hosts = _hosts(machine, config.ranks)
    buckets = max(1.0, math.ceil(4.0 * workload.parameters / bucket_bytes(machine, config)))
    communication = buckets * _sum_latency(machine, config, config.ranks, hosts) + sent / _bandwidth(machine, hosts)
    if config.bf16_comm:
        communication += workload.parameters * ROUNDING_BYTES / machine.memory_rate
    # The gradient of the input embedding, half of all elements, is complete only at the end. The all-gather of weights
    # after a sharded update cannot be hidden.
    early = 0.25 if config.sharded else 0.5
    hidden = machine.overlap * AFTER_FIRST_GRADIENT * compute if config.overlap else 0.0
    communication -= min(early * communication, hidden)
    return Prediction(compute, update, communication, sent, config.users)


def _sliced(cost: StepCost, workload: Workload, machine: Machine, config: ParallelConfig) -> tuple[float, float]:
    """Returns the seconds of the update and of the communication with item slices, of which nothing is hidden."""
    ranks, item_slices, groups = config.ranks, config.item_slices, config.model_parallel_groups
    tables = workload.table_parameters / item_slices
    middle = workload.parameters - workload.table_parameters
    # A sharded optimizer divides the tables over the model-parallel groups and the other layers over all ranks.
    own = tables / groups + middle / ranks if config.sharded else tables + middle
    update = cost.update * own / workload.parameters
    sent = sent_bytes(workload, config)
    # The ranks of a model-parallel group are neighbors, hence on as few hosts as possible.
    hosts_of_one, hosts = _hosts(machine, item_slices), _hosts(machine, ranks)
    # Two reduce-scatters and two all-gathers of activations and one all-gather for the softmax.
    communication = 2.5 * _ring_latency(machine, item_slices, hosts_of_one)
    communication += (sent["activations"] + sent["softmax"]) / _bandwidth(machine, hosts_of_one)

    def summed(parameters: float, members: int, hosts: int, rings: int, moved: float) -> float:
        buckets = max(1.0, math.ceil(4.0 * parameters / bucket_bytes(machine, config)))
        return buckets * _sum_latency(machine, config, members, hosts) + moved / _bandwidth(machine, hosts, rings)

    communication += summed(middle, ranks, hosts, 1, sent["middle"])
    if groups > 1:  # Each rank of a host is in another one of the rings, which share the connections of the host.
        rings = min(item_slices, machine.ranks_per_host)
        communication += summed(tables, groups, min(groups, hosts), rings, sent["tables"])
    if config.bf16_comm:
        communication += (middle + (tables if groups > 1 else 0.0)) * ROUNDING_BYTES / machine.memory_rate
    return update, communication


def _bisect(low: float, high: float, above: Callable[[float], bool]) -> float:
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if above(middle) else (middle, high)
    return high


def break_even_users_per_rank(
    cost: StepCost, workload: Workload, machine: Machine, config: ParallelConfig
) -> float | None:
    """Returns the break-even point: the users per rank and step below which doubling the ranks, with the same users per
    step, increases users/s by less than 10 %. Returns 0 if doubling always gives more, None if it never does."""
    ranks = config.ranks

    def scales(users_per_rank: float) -> bool:
        now = replace(config, users=users_per_rank * ranks, virtual_shards=0)
        doubled = replace(now, ranks=2 * ranks)
        speed = predict(cost, workload, machine, now).users_per_second
        return predict(cost, workload, machine, doubled).users_per_second >= BREAK_EVEN_GAIN * speed

    if scales(1.0):
        return 0.0
    return _bisect(1.0, 1e8, scales) if scales(1e8) else None


def users_below_which_slices_win(
    cost: StepCost, workload: Workload, machine: Machine, config: ParallelConfig
) -> float | None:
    """Returns the users per step, over all ranks, below which sharing the items between all ranks is faster than
    `config` without item slices. Returns 0 if it never is, None if it always is."""

    def data_wins(users: float) -> bool:
        data = replace(config, users=users, virtual_shards=0, item_slices=1)
        items = replace(data, item_slices=config.ranks, sharded=False)
        return predict(cost, workload, machine, data).seconds <= predict(cost, workload, machine, items).seconds

    if data_wins(1.0):
        return 0.0
    return _bisect(1.0, 1e9, data_wins) if data_wins(1e9) else None
