"""Compares two folders of results by name and bit: HDF5 files by attribute and dataset, exports by tensor, texts by line.

A difference is one line, `FILE: what differs`, in which the first part of FILE is the name of the run.
"""

import difflib
import filecmp
import json
import re
import struct
from pathlib import Path

import h5py
import numpy as np

from . import renames

# What differs from run to run of one program, in texts.
VARYING = [
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
    (re.compile(r"\b\d[\d.,]* users/s\b"), "RATE users/s"),
    (re.compile(r"\b\d[\d.]*(e[-+]\d+)? (s|ms|us|min|seconds)\b"), "TIME"),
    (re.compile(r"\b\d[\d.]* ([KMG]i)?B (of memory )?(are )?(free|available)\b"), "MEMORY free"),
    (re.compile(r"\[\[\d+,\d+\],\d+\]"), "JOB"),
    (re.compile(r"\b(PID|pid) \d+"), "PID"),
]
VARYING_KEY = re.compile(r"seconds|per_second|^time$|^id$")
# The program writes checkpoints in the background, so the place of these lines depends on timing.
BACKGROUND_LINE = re.compile(r"^checkpoint .* written in the background")


class Names:
    """What stands in texts for one side's folders, host and commit."""

    def __init__(self, replacements, across_renames=False):
        """`across_renames`: one of the sides has names of before a change of names. Names are then those of after it, keys of
        configurations and names of metrics are sorted, and the width of columns does not count."""
        self.across_renames = across_renames
        self._replacements = [(re.compile(rf"(?<!\w){re.escape(text)}(?!\w)"), name) for text, name in replacements if text]

    def bytes(self, content):
        """Returns a binary file without the commit, which exported models contain."""
        for pattern, name in self._replacements:
            if name == "COMMIT":
                content = re.sub(pattern.pattern.encode(), name.encode(), content)
        return content

    def lines(self, text):
        for pattern, name in self._replacements:
            text = pattern.sub(name, text)
        for pattern, name in VARYING:
            text = pattern.sub(name, text)
        lines = text.split("\n")
        if self.across_renames:
            lines = renames.in_one_form(lines)
        background = sorted(line for line in lines if BACKGROUND_LINE.search(line))
        return [line for line in lines if not BACKGROUND_LINE.search(line)] + background

    def field(self, name):
        return renames.to_new_field(name) if self.across_renames else name

    def path(self, path):
        return renames.to_new_path(path) if self.across_renames else path


def flat_json(value, name, names):
    """Returns a JSON value as lines `name: value`, in which numbers are as written."""
    if isinstance(value, dict):
        return [line for key, each in value.items() for line in flat_json(each, f"{name}.{names.field(key)}", names)]
    if VARYING_KEY.search(name.rsplit(".", 1)[-1]):
        return [f"{name}: TIME"]
    return [f"{name}: {line}" for line in names.lines(value if isinstance(value, str) else json.dumps(value))]


def read_events(text, names):
    """Returns a file of JSON lines as one list of lines, with the checkpoints, which are written in the background, last."""
    events, checkpoints = [], []
    for line in text.splitlines():
        event = json.loads(line, parse_float=str, parse_int=str)
        kind = str(event.pop("event", "")) if isinstance(event, dict) else ""
        event = renames.with_plain_metrics(event) if isinstance(event, dict) else event
        (checkpoints if kind == "checkpoint" else events).append(flat_json(event, kind, names))
    return [line for event in events + sorted(checkpoints) for line in event]


def read_value(value, names):
    """Returns an array, or the lines of a text, of an HDF5 attribute or dataset."""
    if isinstance(value, h5py.Empty):
        return ["empty"]
    value = np.asarray(value)
    if value.dtype.kind not in "OSU":
        return value
    texts = [each.decode("utf-8", "backslashreplace") if isinstance(each, bytes) else str(each) for each in value.ravel()]
    return [f"shape {value.shape}"] + [line for text in texts for line in names.lines(text)]


def read_hdf5(path, names):
    leaves = {}

    def read_group(name, group):
        for key in sorted(group.attrs):
            # The checkpoint, which contains the commit, is compared itself.
            leaves[f"{name}/@{key}"] = ["CHECKSUM"] if key == "checkpoint_xxh3" else read_value(group.attrs[key], names)
        for key in sorted(group):
            child, link = f"{name}/{key}", group.get(key, getlink=True)
            if not isinstance(link, h5py.HardLink):
                leaves[child] = [f"link to {link.path}"]
            elif isinstance(group[key], h5py.Group):
                leaves[child] = ["group"]
                read_group(child, group[key])
            else:
                data = group[key]
                leaves[f"{child}/@storage"] = [f"{data.dtype} {data.chunks} {data.compression} {data.compression_opts}"]
                leaves[child] = read_value(data[()], names)
                for each in sorted(data.attrs):
                    leaves[f"{child}/@{each}"] = read_value(data.attrs[each], names)

    with h5py.File(path, "r") as file:
        read_group("", file)
    return {names.path(part): leaf for part, leaf in leaves.items()}


def read_safetensors(content, names):
    """Returns the tensors as bytes, and the header with their types and shapes as text."""
    size = struct.unpack("<Q", content[:8])[0]
    header, values = json.loads(content[8 : 8 + size]), content[8 + size :]
    leaves = {"/header": flat_json(header, "header", names)}
    for name, tensor in header.items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            leaves[f"/{name}"] = np.frombuffer(values[begin:end], {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4"}.get(tensor["dtype"], "u1"))
    return leaves


def protobuf_fields(content):
    """Yields the number and the value of each field of a protobuf message: an integer, or bytes."""
    at = 0

    def integer():
        nonlocal at
        begin = at
        while content[at] >= 128:
            at += 1
        at += 1
        return sum((byte & 127) << (7 * place) for place, byte in enumerate(content[begin:at]))

    while at < len(content):
        field, kind = divmod(integer(), 8)
        if kind == 0:
            yield field, integer()
        else:
            size = {1: 8, 5: 4}.get(kind) or integer()
            yield field, content[at : at + size]
            at += size


def read_onnx(content, names):
    """Returns the fields of a model, such as its graph, by number, and its metadata as text."""
    leaves, metadata = {}, {}
    for number, value in protobuf_fields(content):
        if number == 14:
            entry = dict(protobuf_fields(value))
            metadata[names.field(entry[1].decode())] = entry.get(2, b"").decode("utf-8", "backslashreplace")
        else:
            leaves[f"/{number}"] = np.frombuffer(names.bytes(value), "u1") if isinstance(value, bytes) else [str(value)]
    return leaves | {"/metadata": flat_json(dict(sorted(metadata.items())), "metadata", names)}


def read_file(path, names):
    """Returns the parts of a file by name, each an array or a list of lines."""
    if path.suffix in (".h5", ".hdf5"):
        return read_hdf5(path, names)
    content = path.read_bytes()
    if path.suffix == ".safetensors":
        return read_safetensors(content, names)
    if path.suffix == ".onnx":
        return read_onnx(content, names)
    try:
        text = content.decode("utf-8")
        if "\0" in text:
            raise ValueError("a binary file")
    except ValueError:
        return {"": np.frombuffer(names.bytes(content), "u1")}
    return {"": read_events(text, names) if path.name == "metrics.jsonl" else names.lines(text)}


def compare_arrays(old, new):
    if old.dtype != new.dtype or old.shape != new.shape:
        return [f"{old.dtype}{list(old.shape)} became {new.dtype}{list(new.shape)}"]
    if old.tobytes() == new.tobytes():
        return []
    flat = [np.frombuffer(np.ascontiguousarray(each).tobytes(), "u1").reshape(old.size, -1) for each in (old, new)]
    different = np.flatnonzero((flat[0] != flat[1]).any(axis=1))
    first = different[0]
    values = [each.ravel()[first] for each in (old, new)]
    place = [int(index) for index in np.unravel_index(first, old.shape)]
    return [f"{len(different)} of {old.size} values differ, the first at {place}: {values[0]!r} became {values[1]!r}"]


def compare_leaves(old, new):
    """Returns what differs between two arrays, or two lists of lines."""
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
        return compare_arrays(old, new)
    if isinstance(old, np.ndarray) or isinstance(new, np.ndarray):
        return ["values became text, or text became values"]
    lines = difflib.unified_diff(old, new, n=0, lineterm="") if old != new else []
    return [line for line in list(lines)[2:] if not line.startswith("@@")]


def compare_files(old, new, names):
    if filecmp.cmp(old, new, shallow=False):
        return []
    try:
        parts = [read_file(path, each) for path, each in zip((old, new), names)]
    except (OSError, ValueError, LookupError, struct.error) as error:
        return [f": cannot be read: {error}"]
    differences = []
    for part in sorted(parts[0].keys() | parts[1].keys()):
        if part not in parts[1]:
            differences.append(f"{part}: missing in NEW")
        elif part not in parts[0]:
            differences.append(f"{part}: only in NEW")
        else:
            differences += [f"{part}: {text}" for text in compare_leaves(parts[0][part], parts[1][part])]
    return differences


def compare_folders(old, new, names):
    """Returns the differences between all files of two folders, and the number of files. `names` are the Names of both. Across
    renames, the configurations that the programs read are left out: they are written with the names of each side."""
    found = [{path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.name != ".lock"} for folder in (old, new)]
    if names[0].across_renames:
        found = [{path for path in paths if path.parts[1:] != ("config.yaml",)} for paths in found]
    differences = []
    for path in sorted(found[0] | found[1]):
        if path not in found[1]:
            differences.append(f"{path}: missing in NEW")
        elif path not in found[0]:
            differences.append(f"{path}: only in NEW")
        else:
            differences += [f"{path}{text}" for text in compare_files(old / path, new / path, names)]
    return differences, len(found[0] | found[1])


class Expected:
    """Differences that a change is meant to make, from a file with a line `PATTERN # REASON` for each."""

    def __init__(self, path):
        self.entries = []  # pattern, reason, number of matches
        for number, line in enumerate(Path(path).read_text().splitlines() if path else [], 1):
            if not line.strip() or line.startswith("#"):
                continue
            pattern, separator, reason = line.rpartition(" # ")
            if not separator or not pattern.strip() or not reason.strip():
                raise ValueError(f"{path}:{number}: must be PATTERN # REASON, got {line!r}")
            try:
                self.entries.append([re.compile(pattern.strip()), reason.strip(), 0])
            except re.error as error:
                raise ValueError(f"{path}:{number}: not a regular expression: {error}") from error

    def covers(self, difference):
        """Counts the difference at each pattern that matches it, and returns whether there is one."""
        matching = [entry for entry in self.entries if entry[0].search(difference)]
        for entry in matching:
            entry[2] += 1
        return bool(matching)

    def unused(self):
        return [entry[0].pattern for entry in self.entries if entry[2] == 0]
