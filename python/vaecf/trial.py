"""Runs one trial of `vaecf sweep`: a training by vaecf_dist, which pruning or a request ends early."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import Stopped
from .events import metric_value, read_events, step_of
from .program import ending_with_python, message_of

SECONDS_TO_STOP = 60.0


def events_of(folder: Path) -> list[dict[str, Any]]:
    """Returns the events of a run; none before it has begun."""
    return read_events(folder / "metrics.jsonl") if (folder / "metrics.jsonl").exists() else []


def validations(events: Sequence[dict[str, Any]], metric: str) -> list[tuple[int, float]]:
    """Returns the epochs and values of `metric` on the validation users. Models without epochs count solutions."""
    found = [(e, metric_value(e, metric)) for e in events if e.get("event") in ("validation", "solve")]
    return [(step_of(event), value) for event, value in found if value is not None]


@contextlib.contextmanager
def stop_signals() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Stopped("the sweep was stopped")

    before = {code: signal.signal(code, stop) for code in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for code, handler in before.items():
            signal.signal(code, handler)


def open_no_link(path: str, flags: int) -> int:
    """Opens a file as open() does, except a symbolic link: in a folder that other users may write to, it can lead to any file."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def end(process: subprocess.Popen[bytes], code: signal.Signals) -> None:
    """Asks a run to stop after its step, and kills it if it has not ended a minute later."""
    process.send_signal(code)
    try:
        process.wait(SECONDS_TO_STOP)
    except (subprocess.TimeoutExpired, Stopped):  # A second request ends it at once.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def execute(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, trial: Any, metric: str, prune: bool
) -> tuple[int, bool]:
    """Runs the program of a trial, whose run is in `folder`, with its log beside it. Returns its exit code, and true if the
    trial was pruned. `trial`: that of Optuna, which gets the values of `metric` on the validation users."""
    reported: set[int] = set()
    with open(f"{folder}.log", "ab", opener=open_no_link) as log, subprocess.Popen(
        ending_with_python(command),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env=environment,
    ) as process:
        try:
            while prune:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1.0)
                    break
                _report(trial, folder, metric, reported)
                if trial.should_prune() and process.poll() is None:
                    end(process, signal.SIGUSR1)
                    return process.returncode, True
            code = process.wait()
            _report(trial, folder, metric, reported)
            return code, False
        except Stopped:
            end(process, signal.SIGTERM)
            raise


def _report(trial: Any, folder: Path, metric: str, reported: set[int]) -> None:
    """Passes the validations that are not in `reported` on to Optuna, for pruning and its plots."""
    for epoch, value in validations(events_of(folder), metric):
        if epoch not in reported:
            reported.add(epoch)
            trial.report(value, epoch)


def failure(folder: Path, code: int, metric: str) -> str:
    """Returns the reason of a failed trial, from its log."""
    if code == 0:
        return f"no validation result of {metric}; the dataset requires validation users"
    log = Path(f"{folder}.log").read_text(encoding="utf-8", errors="replace")
    ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    said = message_of(log)
    return f"{ended}: {said}" if said else ended
