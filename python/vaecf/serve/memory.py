"""The memory that is free for a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def _groups(top: Path) -> Iterator[tuple[Path, str, str, str]]:
    """Yields the folders of this process's control groups for memory and of those around them, with the names of their files
    for the limit and the usage, and the key of memory.stat for cached files."""
    versions = {
        "": ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    }
    with suppress(OSError):
        for line in (top / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in versions:
                mount, *names = versions[controllers]
                folder = Path(path.lstrip("/"))
                # In a container, the files of its group are in the mounted folder, whatever path the kernel states.
                for each in {folder, *folder.parents, Path()}:
                    yield top / mount / each, names[0], names[1], names[2]


def free_memory(top: Path = Path("/")) -> int:
    """Returns the bytes that processes may still use: those of the machine, or fewer if the limit of a control group is lower.
    `top`: the root of the file system."""
    lines = (top / "proc/meminfo").read_text().splitlines()
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    for folder, limit, usage, cached in _groups(top):
        with suppress(OSError, ValueError):  # no such group, or "max"
            free = int((folder / limit).read_text()) - int((folder / usage).read_text())
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            found.append(free + int(stat.get(cached, 0)))
    return max(0, min(found))
