"""Time by phase, from the event `benchmark` of a run or from a file of --timeline."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from .errors import InputError
from .events import Event


def benchmark_phases(event: Event) -> dict[str, float]:
    """Returns the milliseconds of each phase of a step, in the order of a step."""
    return {name.replace("_", "-"): 1e3 * float(seconds) for name, seconds in event.get("phase_seconds", {}).items()}


def timeline_phases(file: str | Path) -> dict[str, float]:
    """Returns the seconds of each kind of event of a timeline, by "track: name", as means over ranks.

    Throws InputError if the file is not a timeline.
    """
    try:
        with open(file, encoding="utf-8") as text:
            events = json.load(text)["traceEvents"]
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{file}: is not a file of vaecf_dist --timeline") from None
    tracks: dict[tuple[int, int], str] = {}
    ranks: set[int] = set()
    seconds: dict[tuple[int, str, str], float] = defaultdict(float)
    for event in events:
        if event.get("ph") == "M" and event.get("name") == "thread_name":
            tracks[event["pid"], event["tid"]] = event["args"]["name"]
        elif event.get("ph") == "X":
            track = tracks.get((event["pid"], event["tid"]), "")
            ranks.add(event["pid"])
            seconds[event["tid"], track, event["name"]] += 1e-6 * float(event["dur"])
    return {f"{track}: {name}": total / len(ranks) for (_, track, name), total in sorted(seconds.items())}
