"""The performance model against results of its former C++ implementation, the tables of its design, and hand-made cases."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from vaecf.errors import InputError
from vaecf.scaling.command import parallel_config, parse_ranks, read_machine
from vaecf.scaling.model import (
    Link,
    Machine,
    ParallelConfig,
    StepCost,
    Workload,
    break_even_users_per_rank,
    fit_link,
    fit_step_cost,
    predict,
    sent_bytes,
    step_cost,
    users_below_which_slices_win,
)
from vaecf.scaling.text import predict_table
from vaecf.scaling.workload import DataSizes, workload_of
from vaecf.yaml_files import flatten, load_yaml, parse_yaml

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent / "data"
STORED = json.loads((DATA / "scaling_predictions.json").read_text())
WORK = Workload(parameters=25e6, dense_weights=12.4e6, half_copy_bytes=2.0)
CLUSTER = Machine(
    name="two hosts of four",
    ranks_per_host=4,
    flops=100e12,
    memory_rate=2e12,
    step_overhead=20e-6,
    within_host=Link(2e-6, 200e9),
    between_hosts=Link(10e-6, 20e9),
)
DEFAULTS = {
    "model.dropout": 0.5,
    "train.precision": "auto",
    "distributed.strategy": "allreduce",
    "distributed.optimizer_state": "replicated",
    "distributed.comm_dtype": "fp32",
    "distributed.overlap": "auto",
    "distributed.bucket_mib": 4.0,
    "distributed.algorithm": "ring",
    "train.deterministic": False,
    "data.virtual_shards": 64,
}


def config_of(case):
    """Returns the keys that a prediction depends on, without vaecf_dist."""
    config = {**DEFAULTS, **flatten(load_yaml(ROOT / "configs" / f"{case['config']}.yaml"))}
    for setting in case["settings"]:
        key, value = setting.split("=", 1)
        config[key] = parse_yaml(value)
    return config


@pytest.mark.parametrize("case", STORED, ids=lambda c: " ".join([c["machine"], c["config"], *c["settings"]]))
def test_predictions_equal_those_of_the_former_implementation(case):
    config = config_of(case)
    machine = read_machine(ROOT / "configs" / "machines" / f"{case['machine']}.yaml")
    work = workload_of(config, DataSizes(case["items"], 0, case["interactions_per_user"]))
    parallel = parallel_config(config, case["ranks"])
    cost = step_cost(machine, work)
    same = lambda values: pytest.approx(values, rel=1e-8)  # noqa: E731
    assert [work.parameters, work.dense_weights, work.bytes_per_user, work.half_copy_bytes] == same(case["workload"])
    assert [cost.fixed, cost.per_user, cost.update, cost.update_single_rank] == same(case["cost"])
    for ranks, users, *expected, break_even in case["points"]:
        run = replace(parallel, ranks=ranks, users=users)
        p = predict(cost, work, machine, run)
        found = [p.compute, p.update, p.communication, p.wire_bytes, p.seconds, p.users_per_second]
        assert found == same(expected), (ranks, users)
        assert break_even_users_per_rank(cost, work, machine, run) == (None if break_even is None else same(break_even))
    if "table" in case:
        table = predict_table(machine, work, parallel, case["ranks"])
        lines = [line for line in table.splitlines() if "slices" not in line and "buckets" not in line]
        assert lines == [line for line in case["table"].splitlines() if " require data.virtual_shards" not in line]


def items_workload(items):
    config = {**DEFAULTS, "model.type": "mult_vae", "model.hidden": [600], "model.latent": 200, "train.precision": "bf16"}
    return workload_of(config, DataSizes(items, 0, 73.0))


def test_bytes_of_two_groups_of_two_slices_by_hand():
    work = Workload(parameters=1000.0 + 21 * 50, table_parameters=21 * 50.0, table_widths=20.0)
    sent = sent_bytes(work, ParallelConfig(ranks=4, users=8, item_slices=2, bf16_comm=True))
    # A model-parallel group has 4 users: its ranks send half of 4 x 10 floats four times, and 4 pairs of floats to
    # one other rank.
    assert sent == {"activations": 4 * 80.0, "softmax": 4 * 8.0, "middle": 1.5 * 2000.0, "tables": 1.0 * 2 * 525.0}


def test_bytes_of_gathers_in_16_bits_by_hand():
    work = Workload(parameters=361_600.0 + 20_108 * 1201, table_parameters=20_108 * 1201.0, table_widths=1200.0, gathered_bytes=2.0)
    total = lambda users: sum(sent_bytes(work, ParallelConfig(ranks=8, users=users, item_slices=8)).values()) / 1e6  # noqa: E731
    # As in tests/training/item_slice_plan_test.cpp: one gather of up to 6,990 users is in fp32.
    assert [total(500), total(4096), total(24576)] == pytest.approx([6.23, 32.87, 158.74], abs=0.005)


NVLINK = Machine("", 8, 650e12, 2.85e12, 30e-6, 0.0, Link(1.5e-6, 370e9), Link(1.5e-6, 370e9))
INFINIBAND = Machine("", 1, 650e12, 2.85e12, 30e-6, 0.0, Link(4e-6, 42e9), Link(4e-6, 42e9))


@pytest.mark.parametrize(
    ("machine", "items", "users", "ranks", "item_slices", "milliseconds"),
    [
        (NVLINK, 20_108, 500, 8, 8, 0.17),
        (NVLINK, 20_108, 4096, 8, 8, 0.34),
        (NVLINK, 20_108, 4096, 8, 1, 0.97),
        (NVLINK, 20_108, 24576, 8, 8, 1.15),
        (NVLINK, 20_108, 24576, 8, 2, 1.08),
        (NVLINK, 2_500_000, 4096, 8, 8, 14.5),
        (INFINIBAND, 20_108, 500, 8, 8, 0.44),
        (INFINIBAND, 20_108, 4096, 8, 4, 1.31),
        (INFINIBAND, 20_108, 24576, 8, 4, 3.07),
        (INFINIBAND, 2_500_000, 4096, 8, 8, 15.4),
        (INFINIBAND, 20_108, 24576, 64, 8, 2.0),
        (INFINIBAND, 20_108, 24576, 64, 1, 7.0),
        (INFINIBAND, 2_500_000, 32768, 64, 64, 18.2),
    ],
)
def test_times_of_item_slices(machine, items, users, ranks, item_slices, milliseconds):
    work = items_workload(items)
    run = ParallelConfig(ranks=ranks, users=users, item_slices=item_slices, bucket_bytes=25 * 1048576.0)
    p = predict(step_cost(machine, work), work, machine, run)
    assert 1e3 * p.seconds == pytest.approx(milliseconds, rel=0.035)


def test_slices_win_below_the_batch_at_which_both_take_equally_long():
    work = items_workload(20_108)
    cost = step_cost(NVLINK, work)
    run = ParallelConfig(ranks=8, overlap=True, sharded=True, bf16_comm=True)
    users = users_below_which_slices_win(cost, work, NVLINK, run)

    def gain(batch):
        data = predict(cost, work, NVLINK, replace(run, users=batch))
        items = predict(cost, work, NVLINK, replace(run, users=batch, item_slices=8, sharded=False))
        return data.seconds / items.seconds

    assert gain(users) == pytest.approx(1.0, abs=1e-3)
    assert gain(0.5 * users) > 1.0 > gain(2.0 * users)
    # A free network leaves only the update, which item slices divide: they always win, and never if sharding divides it too.
    free = replace(NVLINK, within_host=Link(0.0, 1e30), between_hosts=Link(0.0, 1e30))
    assert users_below_which_slices_win(step_cost(free, work), work, free, ParallelConfig(ranks=8)) is None
    assert users_below_which_slices_win(step_cost(free, work), work, free, ParallelConfig(ranks=8, sharded=True)) == 0.0


def test_automatic_buckets_and_sums_depend_on_the_machine():
    work = items_workload(20_108)
    dgx = read_machine(ROOT / "configs" / "machines" / "dgx-h100.yaml")
    config = {**DEFAULTS, "distributed.bucket_mib": "auto", "distributed.algorithm": "auto", "train.batch_size": 24576}
    config["distributed.overlap"] = False
    ranks = [8, 128]
    auto = parallel_config(config, ranks)
    table = predict_table(dgx, work, auto, ranks)
    assert "8 ranks sum gradients in buckets of 32 MiB, in a ring or a tree" in table
    assert "128 ranks sum gradients in buckets of 64 MiB, in a ring or a tree" in table
    over_mpi = predict_table(replace(dgx, overlap=0.0), work, auto, ranks)
    assert over_mpi.count("ranks sum gradients in buckets of 4 MiB, in a ring\n") == 2
    # 128 ranks: a ring over 16 hosts waits 16 + 111 latencies, a tree 4 between hosts and 7 within, both twice.
    ring = parallel_config({**config, "distributed.algorithm": "ring"}, ranks)
    seconds = [predict(step_cost(dgx, work), work, dgx, replace(run, ranks=128)).communication for run in (ring, auto)]
    buckets = math.ceil(4 * work.parameters / (64 * 1048576))
    assert seconds[0] - seconds[1] == pytest.approx(buckets * 2e-6 * (16 * 4 + 111 * 1.5 - 4 * 4 - 7 * 1.5))
    for other in ({"train.deterministic": True}, {"distributed.optimizer_state": "sharded"}):
        assert "in a ring\n" in predict_table(dgx, work, parallel_config({**config, **other}, ranks), ranks)


def test_groups_of_a_host_share_its_connection():
    work = items_workload(20_108)
    machine = replace(NVLINK, ranks_per_host=4, between_hosts=Link(1.5e-6, 100e9))
    run = ParallelConfig(ranks=8, users=4096, item_slices=4, bucket_bytes=1e12)
    slow = predict(step_cost(machine, work), work, machine, run).communication
    one = predict(step_cost(NVLINK, work), work, NVLINK, run).communication
    sent = sent_bytes(work, run)
    assert slow - one == pytest.approx(sent["tables"] * (4 / 100e9 - 1 / 370e9) + sent["middle"] * (1 / 100e9 - 1 / 370e9))


def test_single_rank_steps_determine_fixed_and_per_user_cost():
    steps = [(users, 5e-3 + 0.1e-3 * users) for users in (100.0, 250.0, 1000.0)]
    cost = fit_step_cost(steps, 4e-3, 3e-3)
    assert [cost.fixed, cost.update_single_rank, cost.update, cost.per_user] == pytest.approx([2e-3, 3e-3, 4e-3, 0.1e-3])
    # Both updates are scaled by the same factor if they are longer than the fixed part.
    cached = fit_step_cost(steps, 20e-3, 10e-3)
    assert [cached.fixed, cached.update_single_rank, cached.update] == pytest.approx([0.0, 5e-3, 10e-3], abs=1e-12)
    # One batch size does not separate fixed and per-user cost.
    simple = fit_step_cost([(100.0, 15e-3), (99.0, 15e-3)], 4e-3, 3e-3)
    assert [simple.fixed, simple.update_single_rank, simple.update] == pytest.approx([0.0, 3e-3, 4e-3], abs=1e-12)
    assert simple.per_user == pytest.approx(12e-3 / 100, abs=1e-6)
    # If twice the users take more than twice the time, the fixed cost is 0, and the cost per user is in between.
    steep = fit_step_cost([(100.0, 10e-3), (200.0, 24e-3)], 0.0, 0.0)
    assert steep.fixed == 0.0 and 10e-3 / 100 < steep.per_user < 24e-3 / 200
    # If more users take less time, the cost per user is unknown.
    assert not fit_step_cost([(100.0, 15e-3), (200.0, 14e-3)], 4e-3, 3e-3).known
    with pytest.raises(InputError):
        fit_step_cost([], 0.0, 0.0)


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_link_is_fitted_to_all_reduces(ranks):
    sizes = (4.0, 32768.0, 2097152.0, 67108864.0)
    link = fit_link([(size, 2.0 * (ranks - 1) * (3e-6 + size / ranks / 5e9)) for size in sizes], ranks)
    assert [link.latency, link.bandwidth] == pytest.approx([3e-6, 5e9], rel=1e-3)


def test_link_requires_clearly_different_sizes():
    # Messages of medium size may be faster because of caches.
    assert fit_link([(4.0, 6e-6), (1e6, 20e-6), (64e6, 64e-3 + 6e-6)], 2).bandwidth == pytest.approx(1e9)
    assert fit_link([(4.0, 1e-6)], 2) is None
    assert fit_link([(4.0, 80e-6), (92672.0, 78e-6)], 2) is None
    # The shortest message was delayed.
    assert fit_link([(4.0, 50e-6), (32.0, 6e-6), (64e6, 64e-3 + 6e-6)], 2).latency == pytest.approx(3e-6)


def test_twice_the_ranks_are_always_or_never_faster_on_extreme_networks():
    run, cost = ParallelConfig(ranks=8), StepCost(0.0, 1e-6, 0.0, 0.0)
    ideal = replace(CLUSTER, within_host=Link(0.0, 1e18), between_hosts=Link(0.0, 1e18))
    assert break_even_users_per_rank(cost, WORK, ideal, run) == 0.0
    slow = replace(CLUSTER, within_host=Link(1e3, 1.0), between_hosts=Link(1e3, 1.0))
    assert break_even_users_per_rank(cost, WORK, slow, run) is None
    # Without virtual shards, each rank has an equal share of the users.
    assert predict(cost, WORK, CLUSTER, ParallelConfig(ranks=48, users=4800)).compute == pytest.approx(100e-6)


def test_machine_files_are_complete():
    files = sorted((ROOT / "configs" / "machines").glob("*.yaml"))
    assert len(files) >= 2
    for file in files:
        m = read_machine(file)
        assert m.ranks_per_host > 1 and m.flops > m.memory_rate > m.within_host.bandwidth > m.between_hosts.bandwidth
        assert m.between_hosts.latency > m.within_host.latency


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {latent: 3}", "must set machine.name"),
        ("machine: {name: x, flops: 1, memory_rate: 1, within_host: {bandwidth: 1}}", "must set machine.name"),
        ("machine: {name: x, flop: 1}", "machine.flop is not a key"),
        ("machine: {name: x, flops: many}", "machine.flops has an invalid value"),
        ("machine: {name: x, ranks_per_host: 1.5}", "machine.ranks_per_host has an invalid value"),
        ("machine: [", "cannot be read"),
    ],
)
def test_machine_file_that_is_not_valid_throws(tmp_path, text, message):
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_machine(tmp_path / "m.yaml")


@pytest.mark.parametrize("text", [None, "", "0", "1,two", "1.5", "1,,2", "2000000"])
def test_numbers_of_ranks_that_are_not_valid_throw(text):
    with pytest.raises(InputError, match="--ranks"):
        parse_ranks(text)


def test_slices_must_divide_the_ranks():
    config = {**DEFAULTS, "train.batch_size": 500, "distributed.item_slices": 3}
    with pytest.raises(InputError, match="3 does not divide 8 ranks"):
        parallel_config(config, [6, 8])
    assert parallel_config({**config, "distributed.item_slices": "all"}, [6, 8]).item_slices == 0
    with pytest.raises(InputError, match="parameter_server cannot be predicted"):
        parallel_config({**config, "distributed.strategy": "parameter_server"}, [2])
