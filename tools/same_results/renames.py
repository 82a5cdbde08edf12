"""Names that differ between two commits: old name -> new name. The fixed set of runs has the new names.

A program that has the old keys gets its configurations, settings and options in the old names, and its results are compared in the new
ones. Without a change of names between two commits, nothing here has an effect.
"""

import itertools
import re

KEYS = {
    "data.prepare.features": "data.prepare.user_features",
    "data.prepare.holdout": "data.prepare.held_out",
    "data.prepare.new_items": "data.prepare.new_item_fraction",
    "data.prepare.weights": "data.prepare.interaction_weights",
    "distributed.optimizer": "distributed.optimizer_state",
    "distributed.servers": "distributed.parameter_server.servers",
    "distributed.staleness": "distributed.parameter_server.staleness",
    "distributed.stall_warning": "watchdog.warning_seconds",
    "distributed.startup_timeout": "watchdog.startup_timeout_seconds",
    "distributed.timeout": "watchdog.timeout_seconds",
    "distributed.updates": "distributed.parameter_server.updates",
    "distributed.validation_timeout": "watchdog.evaluation_timeout_seconds",
    "model.features": "model.user_features",
    "model.item_knn.per": "model.item_knn.neighbors_of",
    "run.keep": "run.keep_checkpoints",
    "validation.baselines": "evaluation.baselines",
    "validation.metrics": "evaluation.metrics",
}
# Options of `recommend`.
OPTIONS = {"--explain": "--reasons", "--user-list": "--users", "--users": "--user-features", "--weight-column": "--interaction-weight-column"}
METRICS = {"popularity@": "mean_popularity@", "tail@": "tail_share@"}
# Attributes, fields of events, and names of arrays and groups below others.
NAMES = {"features": "user_features", "features_of": "user_features_of", "holdout": "held_out", "new_items_fraction": "new_item_fraction",
         "producer": "written_by", "weights": "interaction_weights"}
# Arrays of HDF5 files of lists.
ARRAYS = {"/because": "/because_index", "/contribution": "/contributions", "/item": "/item_index"}
# Fields of events `benchmark`, which were in milliseconds before.
SPEEDS = {"milliseconds_per_step": "step_seconds", "evaluation_ms": "evaluation_seconds"}
# Metrics of events of before they were nested: ease_new_items_ndcg@10_se, ndcg@10_with_history.
FLAT_METRIC = re.compile(r"(?:(cold|popularity|item_knn|ease)_)?(new_items_)?(\w+@\d+?)(_with_history|_without_history)?(_se|_random)?")
METRIC_LIST = re.compile(r"\w+@\d+(, \w+@\d+)+")
METRIC_VALUE = re.compile(r"\w+@\d+ [\d.]+(?: \+- [\d.]+)?")
METRIC_LINE = re.compile(r"\w+@\d+ [\d.]")
CONFIG_LINE = re.compile(r"( *)(?:# )?([\w.]+):(?: (.*))?$")  # after a #, a key without a default


def _replaced(text, names, before=r"(?<![\w.-])", after=r"(?![\w.-])"):
    pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(f"{before}({pattern}){after}", lambda found: names[found.group(1)], text)


def _with_new_metrics(text):
    return _replaced(text, METRICS, before="(?<!mean_)", after="")


def is_old(keys):
    """Returns whether a program with this reference of configuration keys (`--help-config`) has the old names."""
    return any(old in _dotted(keys) for old in KEYS)


def to_old(text):
    """Returns the arguments of a command in the old names."""
    text = _replaced(text, {new: old for old, new in KEYS.items()}, after="(?==)")
    if text.startswith("recommend "):
        text = _replaced(text, {new: old for old, new in OPTIONS.items()})
    return to_old_value(text)


def to_old_key(key):
    return {new: old for old, new in KEYS.items()}.get(key, key)


def to_old_value(value):
    return _replaced(value, {new: old for old, new in METRICS.items()}, before=r"(?<!\w)", after="")


def to_new(line):
    """Returns a line of text in the new names."""
    return _with_new_metrics(_replaced(line, KEYS))


def in_one_form(lines):
    """Returns lines of text in the new names, in which metrics are sorted, in a line and in lines of their own, and columns have no
    width."""
    lines = [_line_in_one_form(line) for line in with_sorted_configurations(lines)]
    grouped = itertools.groupby(lines, key=lambda line: METRIC_LINE.match(line) is not None)
    return [line for are_metrics, group in grouped for line in (sorted(group) if are_metrics else group)]


def _line_in_one_form(line):
    line = re.sub(" {2,}", " ", to_new(line)).strip(" ")
    line = re.sub(r"(?<=[a-z]/)\w+", lambda found: NAMES.get(found[0], found[0]), line)
    line = re.sub(r"^\w+(?=:)", lambda found: NAMES.get(found[0], found[0]), line)
    if METRIC_LIST.fullmatch(line):
        return ", ".join(sorted(line.split(", ")))
    ordered = iter(sorted(found[0] for found in METRIC_VALUE.finditer(line)))
    return METRIC_VALUE.sub(lambda _: next(ordered), line)


def to_new_field(name):
    """Returns the name of a field of an event, or of an attribute, in the new names."""
    return NAMES.get(name, to_new(name))


def with_plain_metrics(event):
    """Returns an event in which the metrics of either shape, nested or flat, have names such as ease/new_items/ndcg@10/se, and without
    the configuration, which config.yaml has."""
    plain = {}

    def add(result, place):
        for name, metric in result.pop("metrics", {}).items():
            plain.update({f"{place}{name}/{part}": value for part, value in metric.items()})
        for name, group in result.pop("groups", {}).items():
            add(group, f"{place}{name}/")
        for name, baseline in result.pop("baselines", {}).items():
            add(baseline, f"{place}{name}/")

    event.pop("config", None)
    add(event, "")
    for key in [key for key in event if "@" in key]:
        found = FLAT_METRIC.fullmatch(key)
        if found:
            of, new_items, name, group, part = found.groups(default="")
            place = [{"cold": "features_alone"}.get(of, of), new_items.strip("_"), group.strip("_"), name, part.strip("_") or "value"]
            plain["/".join(each for each in place if each)] = event.pop(key)
    return event | dict(sorted(plain.items(), key=lambda metric: to_new(metric[0])))


def to_new_path(path):
    """Returns the path of an HDF5 array or group, or of its attribute after an @, in the new names."""
    name, at, attribute = path.partition("/@")
    path = ARRAYS.get(name, name) + at + attribute
    parts = [_with_new_metrics(part) for part in path.split("/")]
    if len(parts) == 2 and parts[1].startswith("@"):
        parts[1] = "@" + to_new_field(parts[1][1:])
    elif parts[1:] and parts[1] in ("train", "validation", "test"):
        parts = [NAMES.get(part, part) for part in parts]
    return "/".join(parts)


def _dotted(text):
    """Returns the dotted names of the keys of a configuration of blocks, and their values."""
    path, found = [], {}
    matches = [match for match in map(CONFIG_LINE.fullmatch, text.split("\n")) if match]
    least = min((len(match.group(1)) for match in matches), default=0)
    for match in matches:
        path = [*path[: (len(match.group(1)) - least) // 2], match.group(2)]
        if match.group(3) is not None:
            found[".".join(path)] = match.group(3)
    return found


def with_sorted_configurations(lines):
    """Returns lines in which each configuration, a block of at least ten lines, is replaced by its dotted keys in their new names,
    sorted."""
    found, block = [], []
    for line in [*lines, "."]:
        if CONFIG_LINE.fullmatch(line):
            block.append(line)
            continue
        keys = _dotted("\n".join(block)) if len(block) > 9 else {}
        names = {key: key.rpartition("configuration.")[2] for key in keys}  # a checkpoint's is one of its attributes
        found += sorted(f"{to_new_field(KEYS.get(names[key], names[key]))}: {value}" for key, value in keys.items()) or block
        found.append(line)
        block = []
    return found[:-1]
