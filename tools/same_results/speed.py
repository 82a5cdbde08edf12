"""Measures what a change does to the speed: runs the same commands with two programs in turn, and compares their times.

Each case is run once by each program without counting, and then in PAIRS pairs, of which every other one begins with NEW, so
that a machine that slows down or is busy for a while affects both. The ratio of a pair is the time of NEW divided by that
of OLD. The result of a case is the median of the ratios with a 95 % interval of the median, from the binomial
distribution of its rank: of nine ratios the second smallest to the second largest. It needs no assumption about the
distribution of the times, and one disturbed pair does not move it.
"""

import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from math import comb
from pathlib import Path

import numpy as np

from .renames import SPEEDS, is_old, to_old_key, to_old_value
from .runs import CHECKPOINT, yaml

PAIRS = 9
SECONDS = 600  # a command that takes longer has failed


@dataclass(frozen=True)
class Case:
    """A command that is timed. `values`: the times in the last event of its log, in ms; without any, its duration counts."""

    name: str
    arguments: str
    ranks: int = 1
    event: str = ""
    values: tuple = ()  # (name of the measurement, key of the event, milliseconds of a unit)


def train_step(precision, ranks, validation=False):
    """Returns the case of a training step; with `validation`, also that of ranking the held-out users."""
    name = f"train-{precision}-{ranks}"
    values = ((name, "step_seconds", 1000.0), *([("validation", "evaluation_seconds", 1000.0)] if validation else []))
    arguments = f"config.yaml -q --benchmark --set train.precision={precision} --set benchmark.evaluate={str(validation).lower()}"
    return Case(name, arguments, ranks, "benchmark", values)


CASES = [
    train_step("fp32", 1, validation=True), train_step("fp32", 2), train_step("bf16", 1), train_step("bf16", 2),
    Case("validation-2-slices", "config.yaml -q --benchmark --set distributed.item_slices=2", 2, "benchmark",
         (("validation-2-slices", "evaluation_seconds", 1000.0),)),
    Case("prepare", "prepare config.yaml -q --force"),
    Case("solve", "config.yaml -q --train --set model.type=ease", event="solve", values=(("solve", "seconds", 1000.0),)),
    Case("recommend", f"recommend --checkpoint {CHECKPOINT} -q --input new.csv --set device=cpu --output top.tsv"),
]
USERS, NEW_USERS, ITEMS, PLAYS = 20_000, 5000, 1500, 40
CONFIG = {
    "name": "speed", "device": "cpu", "data.file": "data.h5", "data.source.format": "delimited", "data.source.path": "plays.csv",
    "data.prepare.split": "random", "data.prepare.validation_users": "1000", "data.prepare.test_users": "10",
    "model.type": "mult_vae", "model.hidden": "[300]", "model.latent": "100", "train.batch_size": "250", "train.epochs": "20",
    "train.annealing.steps": "100", "validation.select": "ndcg@100", "evaluation.metrics": "[ndcg@100]", "evaluation.baselines": "[]",
    "benchmark.seconds": "0.5", "benchmark.warm_up_seconds": "0.1", "run.checkpoint_every": "1000000",
}
SETUP = ("prepare config.yaml -q", "config.yaml -q --train --set name=r --set train.epochs=1")


class SpeedError(Exception):
    """A command that failed."""


def median_interval(values):
    """Returns the median and its 95 % interval, whose ends are values of equal ranks from both ends.

    The number of values below the median of the distribution is binomial with 1/2. Throws ValueError for fewer than six values, which
    have no such interval.
    """
    n = len(values)
    rank, below = -1, 0.0
    for k in range(n):
        below += comb(n, k) / 2**n
        if below > 0.025:
            break
        rank = k
    if rank < 0:
        raise ValueError(f"an interval of 95 % requires at least six pairs, got {n}")
    ordered = sorted(values)
    return statistics.median(ordered), ordered[rank], ordered[n - 1 - rank]


def summary(old, new):
    """Returns what is reported of the times of one measurement, in milliseconds, pair by pair."""
    ratio, low, high = median_interval([after / before for before, after in zip(old, new, strict=True)])
    return {"old_ms": statistics.median(old), "new_ms": statistics.median(new), "ratio": ratio, "low": low, "high": high}


def line_of(name, result):
    """Returns the line of a measurement in the printed table."""
    verdict = "slower" if result["low"] > 1 else "faster" if result["high"] < 1 else "same"
    return (f"{name:<20} {result['old_ms']:10.2f} {result['new_ms']:10.2f} {result['ratio']:8.3f}   "
            f"{result['low']:.3f} to {result['high']:.3f}   {verdict}")


def plays():
    """Returns lines with a user and an item, the same in each run."""
    items = (ITEMS * np.random.default_rng(7).random(USERS * PLAYS) ** 2).astype(int)
    return ["user,item\n", *(f"{place // PLAYS},{item}\n" for place, item in enumerate(items.tolist()))]


def execute(program, arguments, ranks, folder, environment):
    """Runs a command and returns its duration in milliseconds. Throws SpeedError if it fails."""
    launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)] if ranks > 1 else []
    begin = time.perf_counter()
    done = subprocess.run([*launcher, str(program), *shlex.split(arguments)], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=SECONDS, check=False)
    duration = 1000 * (time.perf_counter() - begin)
    if done.returncode != 0:
        text = done.stderr.decode("utf-8", "replace").strip()
        raise SpeedError(f"{program} {arguments}: exit code {done.returncode}: {text[-2000:]}")
    return duration


def measure(case, program, folder, environment):
    """Runs a case once. Returns the milliseconds of each of its measurements by name."""
    log = folder / "runs" / "speed"
    shutil.rmtree(log, ignore_errors=True)
    duration = execute(program, case.arguments, case.ranks, folder, environment)
    if not case.values:
        return {case.name: duration}
    events = [json.loads(line) for line in (log / "metrics.jsonl").read_text().splitlines()]
    last = [event for event in events if event["event"] == case.event][-1]
    old_keys = {new: old for old, new in SPEEDS.items()}
    return {name: unit * last[key] if key in last else last[old_keys[key]] for name, key, unit in case.values}


def machine():
    """Returns the processor, cores and memory of this machine as text."""
    found = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{found.group(1) if found else 'unknown processor'}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB"


def measure_all(cases, sides, environment, folder, say):
    """Measures cases with both programs, prints a line for each measurement, and returns their results by name."""
    folders = [folder / side for side in ("old", "new")]
    table = plays()
    for program, place in zip(sides, folders, strict=True):
        place.mkdir()
        (place / "plays.csv").write_text("".join(table))
        (place / "new.csv").write_text("".join(table[: 1 + NEW_USERS * PLAYS]))
        keys = subprocess.run([program, "--help-config"], env=environment, capture_output=True, text=True, check=False).stdout
        settings = {to_old_key(key): to_old_value(value) for key, value in CONFIG.items()} if is_old(keys) else CONFIG
        (place / "config.yaml").write_bytes(yaml(settings))
        for arguments in SETUP:
            execute(program, arguments, 1, place, environment)
    print(f"{'':<20} {'OLD ms':>10} {'NEW ms':>10} {'NEW/OLD':>8}   95 % interval", flush=True)
    results = {}
    for case in cases:
        say(f"{case.name}: {PAIRS} pairs")
        times = ({}, {})
        for pair in range(-1, PAIRS):  # the first one is not counted
            for side in (0, 1) if pair % 2 else (1, 0):
                for name, milliseconds in measure(case, sides[side], folders[side], environment).items():
                    if pair >= 0:
                        times[side].setdefault(name, []).append(milliseconds)
        for name in times[0]:
            results[name] = summary(times[0][name], times[1][name])
            print(line_of(name, results[name]), flush=True)
    return results


def run_speed(sides, about, environment, only, output, say):
    """Measures all cases whose names match `only`, and appends a JSON line to `output`, which begins with `about`.

    `sides`: both programs. Returns whether any measurement is slower.
    """
    cases = [case for case in CASES if re.search(only, case.name)]
    with tempfile.TemporaryDirectory() as folder:
        results = measure_all(cases, sides, environment, Path(folder), say)
    record = about | {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": machine(), "pairs": PAIRS,
                      "interval": "95 % of the median", "results": results}
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    return any(result["low"] > 1 for result in results.values())
