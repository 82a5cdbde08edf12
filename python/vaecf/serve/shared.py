"""Counters and a message that all workers share, in memory that they inherit."""

from __future__ import annotations

import mmap
from bisect import bisect_left

import numpy as np

COUNTERS = {
    "requests": "requests for lists and for similar items",
    "errors": "those without an answer",
    "users": "users and items with a list",
    "unknown_ids": "unknown ids in requests",
}
BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""Upper bounds of the histogram of seconds."""

_TEXT = 4096


class Shared:
    """Numbers of each worker, which it alone changes, and a message of their parent."""

    def __init__(self, workers: int) -> None:
        """Makes memory for a number of workers."""
        width = len(COUNTERS) + len(BUCKETS) + 2
        self._memory = mmap.mmap(-1, _TEXT + 8 * workers * width)
        self.numbers = np.frombuffer(self._memory, np.float64, workers * width, _TEXT).reshape(workers, width)
        # Single numbers are changed faster without numpy.
        self._rows = [memoryview(row) for row in self.numbers]

    @property
    def message(self) -> str | None:
        """The message; None if there is none."""
        text = self._memory[:_TEXT].partition(b"\0")[0]
        return text.decode("utf-8", "replace") or None

    @message.setter
    def message(self, text: str | None) -> None:
        self._memory[:_TEXT] = (text or "").encode("utf-8", "replace")[: _TEXT - 1].ljust(_TEXT, b"\0")

    def count(self, worker: int, seconds: float, failed: bool, users: int, unknown: int) -> None:
        """Counts a request of a worker."""
        row = self._rows[worker]
        for place, more in enumerate((1, failed, users, unknown)):
            row[place] += more
        row[len(COUNTERS) + bisect_left(BUCKETS, seconds)] += 1
        row[-1] += seconds

    def metrics(self) -> str:
        """Returns the sums over all workers as text for Prometheus."""
        total = self.numbers.sum(axis=0)
        lines = []
        for value, (name, meaning) in zip(total, COUNTERS.items(), strict=False):
            lines += [f"# HELP vaecf_{name}_total {meaning}", f"# TYPE vaecf_{name}_total counter"]
            lines += [f"vaecf_{name}_total {value:.0f}"]
        lines += ["# HELP vaecf_request_seconds time of these requests", "# TYPE vaecf_request_seconds histogram"]
        sums = np.cumsum(total[len(COUNTERS) : -1])
        for bound, value in zip((*BUCKETS, "+Inf"), sums, strict=True):
            lines.append(f'vaecf_request_seconds_bucket{{le="{bound}"}} {value:.0f}')
        lines += [f"vaecf_request_seconds_sum {total[-1]:.6f}", f"vaecf_request_seconds_count {sums[-1]:.0f}"]
        return "\n".join([*lines, ""])
