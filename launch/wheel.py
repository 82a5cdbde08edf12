"""Writes a wheel: wheel.py TREE OUT NAME TAG REQUIREMENT..., for launch/wheel.

TREE has the folders `scripts` and `data`, as pip names them, `package`, the Python package vaecf, and `licenses`. What is known
of the package is read from python/pyproject.toml. Prints the file.
"""

import base64
import hashlib
import os
import re
import stat
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def version() -> str:
    """Returns the version of the Python package, which is that of the program."""
    text = (ROOT / "python/vaecf/__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if found is None:
        sys.exit("launch: python/vaecf/__init__.py has no line __version__")
    return found[1]


def requirement(text: str, extra: str) -> str:
    """Returns the requirement of an extra, with its condition."""
    package, _, marker = text.partition(";")
    condition = f'extra == "{extra}"'
    return f"{package.strip()}; " + (f"({marker.strip()}) and {condition}" if marker else condition)


def repository() -> str:
    """Returns the address of the repository in CITATION.cff; empty if it names none."""
    found = re.search(r'^repository-code: *"?([^"\s]+)"?$', (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    return found[1].rstrip("/").removesuffix(".git") if found else ""


def description(address: str, release: str) -> str:
    """Returns README, whose links to files lead to those of the release in the repository `address`, because a package index
    has no such files. Without an address only their texts remain."""

    def outside(link: re.Match[str]) -> str:
        image, label, target = link.groups()
        if target.startswith(("http:", "https:", "#")):
            return link[0]
        if not address:
            return "" if image else label
        return f"{image}[{label}]({address}/{'raw' if image else 'blob'}/v{release}/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", outside, (ROOT / "README.md").read_text())


def metadata(project: dict[str, Any], release: str, name: str, requirements: list[str], licenses: list[str]) -> str:
    """Returns the text of METADATA."""
    address = repository()
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {name}",
        f"Version: {release}",
        "Summary: Distributed trainer for variational autoencoders for collaborative filtering",
        f"License-Expression: {project['license']['text']}",
        *(f"License-File: {file}" for file in licenses),
        f"Requires-Python: {project['requires-python']}",
        "Classifier: Operating System :: POSIX :: Linux",
        "Description-Content-Type: text/markdown",
    ]
    if address:
        lines.append(f"Project-URL: Repository, {address}")
    if name != "vaecf-dist":  # the same files
        lines += ["Provides-Dist: vaecf-dist", "Obsoletes-Dist: vaecf-dist"]
    lines += [f"Requires-Dist: {text}" for text in requirements]
    for extra, texts in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        # An extra may require another one of the same distribution.
        lines += [f"Requires-Dist: {requirement(text.replace('vaecf-dist[', f'{name}['), extra)}" for text in texts]
    return "\n".join(lines) + "\n\n" + description(address, release)


def entry_points(project: dict[str, Any]) -> str:
    """Returns the text of entry_points.txt."""
    return "[console_scripts]\n" + "".join(f"{name} = {place}\n" for name, place in project["scripts"].items())


def main() -> None:
    """Writes the wheel."""
    tree, out, name, tag, *requirements = sys.argv[1:]
    project = tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]
    release = version()
    prefix = f"{name.replace('-', '_')}-{release}"
    info = f"{prefix}.dist-info"
    folders = {"scripts": f"{prefix}.data/scripts", "data": f"{prefix}.data/data", "package": "vaecf", "licenses": f"{info}/licenses"}
    contents: dict[str, tuple[bytes, int]] = {}  # name in the wheel: bytes and permissions
    for folder, target in folders.items():
        for path in sorted((Path(tree) / folder).rglob("*")):
            if path.is_file():
                mode = 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644
                contents[f"{target}/{path.relative_to(Path(tree) / folder)}"] = (path.read_bytes(), mode)
    licenses = sorted(path.name for path in (Path(tree) / "licenses").iterdir())
    wheel = f"Wheel-Version: 1.0\nGenerator: vaecf_dist (launch/wheel)\nRoot-Is-Purelib: false\nTag: {tag}\n"
    texts = {"METADATA": metadata(project, release, name, requirements, licenses), "WHEEL": wheel, "entry_points.txt": entry_points(project)}
    contents |= {f"{info}/{file}": (text.encode(), 0o644) for file, text in texts.items()}
    record = f"{info}/RECORD"
    rows = []
    for file, (data, _) in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{file},sha256={digest},{len(data)}\n")
    contents[record] = ("".join([*rows, f"{record},,\n"]).encode(), 0o644)
    target = Path(out) / f"{prefix}-{tag}.whl"
    unfinished = target.with_suffix(".part")
    # The same files give the same bytes: without the current time, and in the same order.
    level = 9 if "manylinux" in tag else 1  # of a test, quickly
    unfinished.unlink(missing_ok=True)
    with zipfile.ZipFile(unfinished, "x") as archive:  # through no link, in a folder of others
        for file, (data, mode) in contents.items():
            entry = zipfile.ZipInfo(file)
            entry.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, level)
    os.replace(unfinished, target)
    print(target)


if __name__ == "__main__":
    main()
