"""Formats reports and predictions for the terminal, as CSV and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .model import (
    Machine,
    ParallelConfig,
    Workload,
    break_even_users_per_rank,
    bucket_bytes,
    predict,
    step_cost,
    sums_in_ring,
    users_below_which_slices_win,
)
from .report import BreakEven, Point, Report, SlicesWin, Stats
from .runs import PHASES


def _stats(stats: Stats, scale: float, digits: int) -> str:
    median, low, high = (f"{scale * value:.{digits}f}" for value in (stats.median, stats.low, stats.high))
    return median if stats.repeats < 2 else f"{median} ({low}-{high})"


def _percent(value: float) -> str:
    return f"{math.floor(abs(100.0 * value) + 0.5) * (1 if value >= 0 else -1) + 0.0:+.0f} %"


def _rows(points: Sequence[Point]) -> str:
    text = (
        f"  {'ranks':>5} {'batch':>8}  {'variant':<28}{'users/s (low-high)':>24}{'efficiency %':>22}{'predicted':>12}"
        f"{'error':>8}{'MB per step':>13}{'bus GB/s':>10}\n"
    )
    for p in points:
        predicted = f"{p.predicted.users_per_second:.0f}" if p.predicted else "-"
        error = _percent(p.prediction_error) if p.predicted else "-"
        digits = 3 if 0.0 < p.wire_bytes < 1e6 else 1
        bus = f"{1e-9 * p.bus_rate:.2f}" if p.bus_rate > 0.0 else "-"
        text += (
            f"  {p.ranks:>5} {p.batch_size:>8.0f}  {p.name:<28}{_stats(p.users_per_second, 1.0, 0):>24}"
            f"{_stats(p.efficiency, 100.0, 1):>22}{predicted:>12}{error:>8}{1e-6 * p.wire_bytes:>13.{digits}f}{bus:>10}"
        )
        text += "".join(f"  {flag}!" for flag in p.flags) + "\n"
    return text


def break_even_line(found: BreakEven) -> str:
    """Returns the sentence on the break-even point."""
    ranks = f"from {found.ranks} ranks to {2 * found.ranks}"
    variant = f" ({found.variant})" if found.variant else ""
    if found.users is None:
        return f"{ranks}{variant}, users/s never increase by 10 %"
    if found.users <= 0.0:
        return f"{ranks}{variant}, users/s increase by at least 10 % with any number of users"
    return f"below about {found.users:.0f} users per rank and step, going {ranks} gives less than 10 % more users/s{variant}"


def slices_line(found: SlicesWin) -> str:
    """Returns the sentence on the batch below which item slices are faster."""
    than = f"than {found.variant}" if found.variant else "than without item slices"
    item_slices = f"distributed.item_slices: all on {found.ranks} ranks is predicted to be"
    if found.users is None:
        return f"{item_slices} faster {than} with any number of users"
    if found.users <= 0.0:
        return f"{item_slices} slower {than} with any number of users"
    return f"below about {found.users:.0f} users per step over all ranks, {item_slices} faster {than}"


def to_table(report: Report) -> str:
    """Formats a report for the terminal."""
    text = (
        f"{report.machine}\nvaecf_dist {report.version}, {report.device}, {report.precision}, {report.threads} threads per "
        f"rank, {report.binding}\n"
    )
    text += "".join(f"warning: {warning}\n" for warning in report.warnings)
    if report.strong:
        text += f"strong scaling: {report.batch_size:.0f} users per step over all ranks\n{_rows(report.strong)}"
    if report.weak:
        text += f"weak scaling: {report.users_per_rank:.0f} users per step and rank\n{_rows(report.weak)}"
    cost, link = report.cost, report.probed.within_host
    if cost.known:
        text += (
            f"model: {1e3 * cost.fixed:.2f} ms per step + {1e3 * cost.per_user:.4f} ms per user + "
            f"{1e3 * cost.update_single_rank:.2f} ms for the update\n"
        )
    if link.bandwidth > 0.0:
        text += f"between ranks: {1e6 * link.latency:.1f} us latency, {1e-9 * link.bandwidth:.2f} GB/s\n"
    if report.break_even:
        text += break_even_line(report.break_even) + "\n"
    if report.slices_win:
        text += slices_line(report.slices_win) + "\n"
    return text


COLUMNS = (
    "mode,ranks,batch_size,variant,users_per_second,users_per_second_low,users_per_second_high,repeats,efficiency,step_ms,"
    "input_ms,forward_ms,loss_ms,backward_ms,all_reduce_ms,optimizer_ms,wire_bytes,bus_gbytes,predicted_users_per_second,"
    "prediction_error,flags"
)


def to_csv(report: Report) -> str:
    """Formats a report as CSV, one line per point."""
    lines = [COLUMNS]
    for mode, points in (("strong", report.strong), ("weak", report.weak)):
        for p in points:
            s = p.users_per_second
            cells = [mode, f"{p.ranks}", f"{p.batch_size:.0f}", p.name, f"{s.median:.1f}", f"{s.low:.1f}", f"{s.high:.1f}"]
            cells += [f"{s.repeats}", f"{p.efficiency.median:.4f}", f"{1e3 * p.step_seconds:.4f}"]
            cells += [f"{1e3 * p.phase_seconds.get(phase, 0.0):.4f}" for phase in PHASES]
            cells += [f"{p.wire_bytes:.0f}", f"{1e-9 * p.bus_rate:.4f}"]
            cells += [f"{p.predicted.users_per_second:.1f}", f"{p.prediction_error:.4f}"] if p.predicted else ["", ""]
            cells.append("; ".join(p.flags))
            lines.append(",".join(cells))
    return "\n".join(lines) + "\n"


def _point_object(p: Point) -> dict[str, Any]:
    def stats(s: Stats) -> dict[str, Any]:
        return {"median": s.median, "low": s.low, "high": s.high, "repeats": s.repeats}

    point: dict[str, Any] = {
        "ranks": p.ranks,
        "batch_size": p.batch_size,
        "variant": p.name,
        "users_per_second": stats(p.users_per_second),
        "efficiency": stats(p.efficiency),
        "step_ms": 1e3 * p.step_seconds,
        "phases_ms": {name: 1e3 * seconds for name, seconds in p.phase_seconds.items()},
        "wire_bytes": p.wire_bytes,
        "bus_gbytes": 1e-9 * p.bus_rate,
        "flags": p.flags,
    }
    if p.predicted:
        point["predicted"] = {
            "users_per_second": p.predicted.users_per_second,
            "efficiency": p.predicted_efficiency,
            "compute_ms": 1e3 * p.predicted.compute,
            "update_ms": 1e3 * p.predicted.update,
            "exchange_ms": 1e3 * p.predicted.communication,
            "error": p.prediction_error,
        }
    return point


def to_json(report: Report) -> str:
    """Formats a report as JSON."""
    model: dict[str, Any] = {
        "fixed_ms": 1e3 * report.cost.fixed,
        "per_user_ms": 1e3 * report.cost.per_user,
        "update_ms": 1e3 * report.cost.update_single_rank,
        "latency_us": 1e6 * report.probed.within_host.latency,
        "bandwidth_gbytes": 1e-9 * report.probed.within_host.bandwidth,
        "predicts": report.cost.known,
    }
    if report.break_even:
        model["stops_paying"] = break_even_line(report.break_even)
        model["stops_paying_variant"] = report.break_even.variant
        if report.break_even.users is not None:
            model["users_where_ranks_stop_paying"] = report.break_even.users
    if report.slices_win:
        model["slices_win"] = slices_line(report.slices_win)
        if report.slices_win.users is not None:
            model["users_below_which_slices_win"] = report.slices_win.users
    content = {
        "version": report.version,
        "machine": report.machine,
        "device": report.device,
        "precision": report.precision,
        "threads": report.threads,
        "ranks_per_host": report.ranks_per_host,
        "binding": report.binding,
        "warnings": report.warnings,
        "batch_size": report.batch_size,
        "users_per_rank": report.users_per_rank,
        "strong": [_point_object(point) for point in report.strong],
        "weak": [_point_object(point) for point in report.weak],
        "model": model,
    }
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def predict_table(machine: Machine, workload: Workload, config: ParallelConfig, ranks: Sequence[int]) -> str:
    """Formats predictions from the rates of a machine for each number of `ranks`: strong scaling with `config.users`
    users per step, and weak scaling with `config.users` users per rank and step. `config.item_slices` 0: all ranks share the
    items."""
    cost = step_cost(machine, workload)

    def on(count: int, users: float) -> ParallelConfig:
        return replace(config, ranks=count, users=users, item_slices=config.item_slices or count)

    alone = predict(cost, workload, machine, replace(config, ranks=1, item_slices=1)).users_per_second
    text = (
        f"predicted, not measured: {machine.name}\n"
        f"  one rank: {alone:.0f} users/s at {config.users:.0f} users per step\n"
        f"  {'ranks':>6} {'mode':<7}{'batch':>9}{'users/s':>14}{'efficiency':>12}{'compute':>11}{'update':>11}"
        f"{'exchange':>11}{'MB per step':>12}\n"
    )
    for count in ranks:
        for mode, users in (("strong", config.users), ("weak", config.users * count)):
            p = predict(cost, workload, machine, on(count, users))
            efficiency = f"{100.0 * (p.users_per_second / (count * alone)):.1f} %"
            text += (
                f"  {count:>6} {mode:<7}{users:>9.0f}{p.users_per_second:>14.0f}{efficiency:>12} {1e3 * p.compute:>7.2f} ms "
                f"{1e3 * p.update:>7.2f} ms {1e3 * p.communication:>7.2f} ms{1e-6 * p.wire_bytes:>12.1f}\n"
            )
    for count in ranks:
        if count > 1:
            size = bucket_bytes(machine, on(count, config.users)) / 1048576.0
            how = "in a ring" if sums_in_ring(machine, config) else "in a ring or a tree, whichever is faster"
            text += f"  {count} ranks sum gradients in buckets of {size:g} MiB, {how}\n"
    for count in ranks:
        if config.item_slices == 1:
            users_per_rank = break_even_users_per_rank(cost, workload, machine, on(count, config.users))
            text += f"  {break_even_line(BreakEven('', count, users_per_rank))}\n"
    for count in ranks:
        if count > 1:
            users_per_step = users_below_which_slices_win(cost, workload, machine, on(count, config.users))
            text += f"  {slices_line(SlicesWin('', count, users_per_step))}\n"
    return text
