"""Writes the curves of runs as event files of TensorBoard, also of a run at work."""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from .. import errors
from ..errors import InputError, install
from ..events import Event, metric_names, metric_value, parse_events, results_of, step_of
from ..run import Run

EPOCH_VALUES = ("loss", "nll", "kl", "beta", "users_per_second", "seconds")

SECONDS_TO_TEST = 120.0


def scalars(event: Event) -> Iterator[tuple[str, float]]:
    """Yields the tags and values of an event: train/loss, validation/ndcg@100, test/ndcg@100, test_popularity/ndcg@100,
    test_new_items/ndcg@100, benchmark/users_per_second and so on."""
    kind = event["event"]
    values: dict[str, Any] = {}
    if kind == "epoch":
        values = {f"train/{name}": event.get(name) for name in EPOCH_VALUES}
    elif kind in ("validation", "solve", "test"):
        tag = "test" if kind == "test" else "validation"
        for of, result in results_of(event).items():
            place = tag if of == "model" else f"{tag}_{of}"
            values |= {f"{place}/{name}": metric_value(result, name) for name in metric_names(result)}
            for group, found in result.get("groups", {}).items():
                if group != "features_alone":  # which results_of() contains
                    values |= {f"{place}_{group}/{name}": metric_value(found, name) for name in metric_names(found)}
        settings = {**event.get("settings", {}), "seconds": event.get("seconds")} if kind == "solve" else {}
        values |= {f"solve/{name}": value for name, value in settings.items()}
    elif kind == "benchmark":
        values = {"benchmark/users_per_second": event.get("users_per_second")}
        values |= {f"benchmark/{name}_seconds": value for name, value in event.get("phase_seconds", {}).items()}
        values |= {f"benchmark/{name}": event.get(name) for name in ("step_seconds", "evaluation_seconds")}
    for tag, value in values.items():
        if isinstance(value, int | float):
            yield tag, float(value)


def wall_time(event: Event) -> float:
    """Returns the time of an event in seconds since 1970; now, if the event has none."""
    text = str(event.get("time", ""))
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return time.time()


class Follower:
    """Reads the events of one run: at each update, those that are new."""

    def __init__(self, run: Run) -> None:
        self._run, self._log = run, run.log  # A later run of the name writes there, too.
        self._position = 0
        self._identity = self._log_identity()
        self._ended = self._tested = False
        self._last_change = time.monotonic()

    def update(self) -> int:
        """Passes the complete lines that were added since the last call to add(), and returns their number.

        A run that is resumed or started anew replaces its log. Then restart() is called, and all of it is read again.
        """
        if self._log_identity() != self._identity or self._log.stat().st_size < self._position:
            self._identity, self._position = self._log_identity(), 0
            self.restart()
        with self._log.open("rb") as log:
            log.seek(self._position)
            data = log.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._position += len(complete)
        events = parse_events(complete.decode(errors="replace").splitlines())
        for event in events:
            if event["event"] == "start" and "train" in event.get("tasks", []):
                self._ended = self._tested = False
            self._ended |= event["event"] == "end"
            self._tested |= event["event"] == "test"
            self.add(event)
        if events:
            self._last_change = time.monotonic()
        return len(events)

    def finished(self) -> bool:
        """Returns true if the run has ended and was tested, or if no test followed its end for two minutes."""
        return self._ended and (self._tested or time.monotonic() - self._last_change > SECONDS_TO_TEST)

    def add(self, event: Event) -> None:
        """Writes an event."""

    def restart(self) -> None:
        """Discards what was written."""

    def close(self) -> None:
        """Ends writing."""

    def _log_identity(self) -> int:
        return self._log.stat().st_ino


def follow(followers: Sequence[Follower], forever: bool, interval: float) -> int:
    """Updates the followers once, or until all runs have ended or an interrupt. Returns the number of events."""
    count = 0
    try:
        while True:
            count += sum(follower.update() for follower in followers)
            if not forever or all(follower.finished() for follower in followers):
                break
            time.sleep(interval)
    except KeyboardInterrupt:
        pass
    finally:
        for follower in followers:
            follower.close()
    return count


class RunWriter(Follower):
    """Copies the events of one run to event files in a folder."""

    def __init__(self, run: Run, folder: Path) -> None:
        """Creates the folder. Throws InputError if that is not possible, or if it has event files already."""
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.plugins.text.summary_v2 import text_pb
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise InputError(f"the package tensorboard is missing; install it with: {install('tensorboard')}") from None
        super().__init__(run)
        self._events, self._summaries = event_pb2, summary_pb2
        self._text = text_pb
        if list(folder.glob("events.out.tfevents.*")):
            raise InputError(
                f"{folder}: has event files already, and curves would be drawn twice; delete the folder first"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: {error.strerror}") from None
        self._writer = EventFileWriter(str(folder))

    def restart(self) -> None:
        """Writes a mark by which TensorBoard discards what it has read so far."""
        restart = self._events.SessionLog(status=self._events.SessionLog.START)
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=0, session_log=restart))

    def update(self) -> int:
        """Writes the new events to the file."""
        count = super().update()
        self._writer.flush()
        return count

    def close(self) -> None:
        """Closes the event file."""
        self._writer.close()

    def add(self, event: Event) -> None:
        """Adds an event to the file."""
        if event["event"] == "start":
            # Markdown shows an indented block as it is.
            config = str(yaml.safe_dump(event.get("config", {}), sort_keys=False, default_flow_style=None))
            text = "\n".join(f"    {line}" for line in config.splitlines())
            self._write(event, self._text("configuration", text))
        values = [self._summaries.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars(event)]
        if values:
            self._write(event, self._summaries.Summary(value=values))

    def _write(self, event: Event, summary: Any) -> None:
        self._writer.add_event(self._events.Event(wall_time=wall_time(event), step=step_of(event), summary=summary))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `vaecf tensorboard`."""
    parser.add_argument("runs", metavar="RUN", nargs="+", help="the folder of a run")
    parser.add_argument("--logdir", required=True, metavar="FOLDER", help="event files go to FOLDER/NAME of each run")
    parser.add_argument("--follow", action="store_true", help="go on until all runs have ended, or until Ctrl-C")
    parser.add_argument("--interval", type=float, default=5.0, metavar="SECONDS", help="of --follow (default: 5)")


def run(options: argparse.Namespace) -> int:
    """Writes event files."""
    if options.interval <= 0:
        raise InputError(f"--interval: must be greater than 0, got {options.interval:g}")
    runs = [Run(path) for path in options.runs]
    names = [each.path.resolve().name for each in runs]
    if len(set(names)) < len(names):
        raise InputError("two runs have folders of the same name; write them to different --logdir")
    writers = [RunWriter(each, Path(options.logdir) / name) for each, name in zip(runs, names, strict=True)]
    count = follow(writers, options.follow, options.interval)
    print(f"wrote {count} events to {options.logdir}; see them with tensorboard --logdir {options.logdir}")
    return errors.DONE
