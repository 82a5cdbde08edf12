"""Fits the parameters of the performance model to measured runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median as _median

from ..errors import InputError
from .model import Link, Machine, StepCost, fit_link, fit_step_cost
from .runs import RunRecord


def median(values: Sequence[float]) -> float:
    """Returns the median, or 0 if there are no values."""
    return float(_median(values)) if values else 0.0


def _rate_share(alone: Sequence[RunRecord], together: Sequence[RunRecord], ranks: int) -> float:
    """Returns the GEMM rate of each of `ranks` busy ranks as a fraction of that of a single-rank run."""
    one = median([run.gemm_rate for run in alone])
    all_ranks = median([run.gemm_rate for run in together])
    return all_ranks / (ranks * one) if one > 0.0 and all_ranks > 0.0 else 1.0


class Probes:
    """The parameters of the performance model, fitted to the single-rank runs and the measured rates."""

    def __init__(self, runs: Sequence[RunRecord]) -> None:
        self._runs = runs
        self._alone = self._of(1)
        if not self._alone:
            raise InputError(
                "there is no single-rank run, which efficiency is relative to; add one (launch/scaling --ranks 1,...)"
            )
        # Step times follow from users/s of complete epochs, including their smaller last steps. Medians over repeats
        # exclude outliers.
        self._steps = []
        for size in sorted({run.batch_size for run in self._alone}):
            repeats = [run for run in self._alone if run.batch_size == size]
            users = median([run.users_per_step for run in repeats])
            self._steps.append((users, users / median([run.users_per_second for run in repeats])))

    def cost(self, ranks: int = 1) -> StepCost:
        """Returns the cost of a rank among `ranks` busy ranks, from the rates measured with all of them."""
        together = self._of(ranks)
        rate = median([run.memory_rate for run in together]) / ranks
        alone_rate = median([run.memory_rate for run in self._alone])
        one = self._alone[0]
        update = one.workload.update_bytes() / rate if rate > 0.0 else 0.0
        alone = one.single_rank_update_bytes / alone_rate if alone_rate > 0.0 else 0.0
        cost = fit_step_cost(self._steps, update, alone)
        if ranks == 1:
            return cost
        slower = 1.0 / max(1e-3, _rate_share(self._alone, together, ranks))
        return replace(cost, fixed=cost.fixed * slower, per_user=cost.per_user * slower)

    def machine(self, ranks: int) -> Machine:
        """Returns the rates measured with `ranks` ranks."""
        together = self._of(ranks)
        run = together[0] if together else self._alone[0]
        link = fit_link([probe for r in together for probe in r.all_reduce], ranks) or Link()
        return Machine(
            name=run.machine,
            ranks_per_host=max(1, run.ranks_per_host),
            flops=median([r.gemm_rate for r in together]) / ranks,
            memory_rate=median([r.memory_rate for r in together]) / ranks,
            overlap=1.0 if run.device == "cuda" else 0.0,  # On CPUs, communication needs the compute cores.
            within_host=link,
            between_hosts=link,
        )

    def has_link(self, ranks: int) -> bool:
        """Returns whether the communication of `ranks` ranks can be predicted."""
        return ranks == 1 or self.machine(ranks).within_host.bandwidth > 0.0

    def _of(self, ranks: int) -> list[RunRecord]:
        return [run for run in self._runs if run.ranks == ranks]
