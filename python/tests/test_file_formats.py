"""Compares docs/FILE_FORMATS.md with the files that runs of all kinds write, in both directions."""

import csv
import json
import os
import re
import runpy
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import yaml
from conftest import Workspace

from vaecf.cli import main
from vaecf.program import DEFAULT_MPIRUN, launcher, rank_environment
from vaecf.scaling import text as scaling_text

PAGE = Path(__file__).parents[2] / "docs" / "FILE_FORMATS.md"

CONFIG = """
name: mult_vae
data:
  file: data.h5
  virtual_shards: 4
  source:
    format: delimited
    path: ratings.csv
    user_column: user
    item_column: item
    rating_column: rating
    users: {path: users.csv, user_column: user}
    items: {path: items.csv, item_column: item, title_column: title}
  prepare:
    split: random
    min_rating: 0
    min_user_items: 2
    validation_users: 15
    test_users: 20
    duplicates: sum
    interaction_weights: log1p
    user_features: [country]
    item_features: [genre]
    new_item_fraction: 0.1
    compression: 1
model: {hidden: [6], latent: 4, elsa: {factors: 4}}
train: {epochs: 2, batch_size: 20, precision: fp32, annealing: {epochs: 10}}
evaluation: {metrics: [ndcg@10, recall@5, coverage@5], baselines: [popularity, ease]}
validation: {select: ndcg@10}
device: cpu
benchmark: {seconds: 0.05, warm_up_seconds: 0.01}
"""

# What only a GPU writes, and attributes of sources in archives, for which the library may be missing.
OF_GPUS = {("event", "epoch", "skipped_steps"), ("event", "epoch", "loss_scale"), ("event", "benchmark", "products")}
OF_ARCHIVES = {("attributes", "dataset", name) for name in ("source_file", "source_member", "users_member", "items_member")}


def rows_of(section: str) -> Iterator[list[str]]:
    """Yields the cells of the rows of the tables in a section of the page, without their heads."""
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and not re.fullmatch(r"[-:| ]+", line):
            yield cells


def sections() -> dict[str, str]:
    """Returns the sections of the page by heading."""
    parts = re.split(r"^#+ (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def names_of(section: str) -> set[str]:
    """Returns the names in the first cells of the tables of a section, in which `{a,b}` stands for either."""
    names: set[str] = set()
    for cells in rows_of(section):
        for name in re.findall(r"`([^`]+)`", cells[0]):
            found = re.fullmatch(r"(.*)\{(.*)\}(.*)", name)
            names |= {found[1] + part + found[3] for part in found[2].split(",")} if found else {name}
    return names


def on_the_page() -> set[tuple[str, str, str]]:
    """Returns what the page lists: kind, file or event, name."""
    found = set()
    for heading, section in sections().items():
        kind, _, of = heading.partition(": ")
        if kind in ("Event", "Arrays", "Attributes", "Columns", "Fields"):
            kind = {"Event": "event"}.get(kind, kind.lower())
            found |= {(kind, of.strip("`"), name) for name in names_of(section)}
    return found | {("file", "run folder", name) for name in names_of(sections()["Files of a run folder"])}


def of_result(result: dict[str, Any]) -> Iterator[str]:
    """Yields the fields of a result: its metrics, and its groups, of which each is one, too."""
    for metric in result.get("metrics", {}).values():
        yield from (f"metrics.METRIC.{part}" for part in metric)
    for name, group in result.get("groups", {}).items():
        yield f"groups.{name}"
        yield from (f"groups.GROUP.{key}" for key in group if key not in ("metrics", "groups"))
        yield from of_result(group)


def of_event(event: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    kind = event["event"]
    for key, value in event.items():
        if key in ("event", "metrics", "groups"):
            continue
        if key == "baselines":
            for baseline in value.values():
                yield from (("event", kind, f"baselines.NAME.{part}") for part in baseline if part == "settings")
                yield from (("fields", "results", name) for name in of_result(baseline))
            yield ("event", kind, "baselines.NAME")
        elif isinstance(value, dict) and key != "config":
            yield from (("event", kind, f"{key}.{'NAME' if key in ('settings', 'left_out') else part}") for part in value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield from (("event", kind, f"{key}.{part}") for part in value[0])
        else:
            yield ("event", kind, key)
    yield from (("fields", "results", name) for name in of_result(event))


def of_hdf5(kind: str, path: Path) -> Iterator[tuple[str, str, str]]:
    with h5py.File(path, "r") as file:
        names: list[str] = []
        file.visititems(lambda name, each: names.append(name) if isinstance(each, h5py.Dataset) else None)
        yield from (("arrays", kind, f"/{general(name)}") for name in names)
        yield from (("attributes", kind, name) for name in file.attrs)


def general(name: str) -> str:
    """Returns the name of an array with words for what depends on the configuration."""
    name = re.sub(r"(ndcg|recall)@\d+", "METRIC", name)
    name = re.sub(r"^((?:new_items|head|tail)/)?(popularity|ease|features_alone)/", r"\1RESULT/", name)
    name = re.sub(r"^(optimizer/\w+_moment)/.*", r"\1/ARRAY", name)
    name = name.replace("encoder_1/feature_weight", "FEATURES")
    return re.sub(r"(encoder|decoder)_\d+/", r"\1_N/", name).replace("FEATURES", "encoder_1/feature_weight")


def write_sources(folder: Path) -> None:
    """Writes ratings, users, items and lists."""
    random = np.random.default_rng(1)
    ratings = ["user,item,rating,time"]
    for user in range(120):
        for item in np.flatnonzero(random.random(60) < np.where(np.arange(60) % 4 == user % 4, 0.4, 0.08)):
            ratings.append(f"u{user},{item},{random.integers(1, 6)},{1000 + random.integers(0, 1000)}")
    (folder / "ratings.csv").write_text("\n".join(ratings) + "\n")
    (folder / "users.csv").write_text("user,country\n" + "".join(f"u{u},{'de' if u % 4 < 2 else 'fr'}\n" for u in range(120)))
    (folder / "items.csv").write_text("item,title,genre\n" + "".join(f"{i},Title {i},g{i % 4}\n" for i in range(60)))
    for name, users in (("a-1", range(20)), ("a-2", range(20, 40)), ("validation", range(20)), ("test", range(20))):
        shift = 5 if name in ("validation", "test") else 0
        (folder / f"{name}.txt").write_text("".join(f"{u} {u % 5 + shift} {(u + 1) % 5 + shift}\n" for u in users))
    (folder / "config.yaml").write_text(CONFIG)


class Runs:
    """Calls of the program in a folder, also with several ranks."""

    def __init__(self, program: str, folder: Path) -> None:
        self.space = Workspace(program, folder)
        self.folder = folder

    def prepare(self, name: str, **keys: str) -> None:
        pairs = {"data.file": name, "data.prepare.new_item_fraction": "0", **{key.replace("__", "."): value for key, value in keys.items()}}
        self.space.call("prepare", "config.yaml", "--quiet", *self.settings(pairs))

    @staticmethod
    def settings(pairs: dict[str, str]) -> list[str]:
        return [part for key, value in pairs.items() for part in ("--set", f"{key}={value}")]

    def run(self, name: str, *options: str, ranks: int = 1, code: int = 0, **keys: str) -> Path:
        """Runs a configuration, and returns its run folder. In the names of keys, two underscores are a point."""
        pairs = {"name": name, **{key.replace("__", "."): value for key, value in keys.items()}}
        command = [self.space.program, "config.yaml", "--quiet", *options, *self.settings(pairs)]
        environment = {**rank_environment(ranks, DEFAULT_MPIRUN), "OMP_NUM_THREADS": "1", "SLURM_JOB_ID": "7"}
        self.space.execute([*launcher(ranks, DEFAULT_MPIRUN), *command], environment, code)
        return self.folder / "runs" / name


def write_datasets(runs: Runs) -> None:
    """Writes datasets of each kind, also data.h5, in which two test users have no history."""
    runs.prepare("data.h5", data__prepare__new_item_fraction="0.1")
    with h5py.File(runs.folder / "data.h5", "r+") as file:
        fold_in = file["test/fold_in"]
        values = {name: fold_in[name][:] for name in ("indptr", "indices", "interaction_weights")}
        cut = int(values["indptr"][2])
        for name, array in values.items():
            kept = np.maximum(array - cut, 0) if name == "indptr" else array[cut:]
            del fold_in[name]
            fold_in[name] = kept
    fractions = {f"data__prepare__{part}_fraction": "0.2" for part in ("validation", "test")}
    auto = {f"data__prepare__{part}_users": "auto" for part in ("validation", "test")}
    runs.prepare("stable.h5", data__prepare__split="stable", **fractions, **auto)
    times = {"data__source__time_column": "time", "data__prepare__split": "time"}
    runs.prepare("time.h5", **times)
    runs.prepare("dates.h5", data__prepare__dates="[1970-01-01T00:25:00, 1970-01-01T00:30:00]", **times)
    text = re.sub(r"    (format|path|\w+_column|users|items):.*\n", "", CONFIG)
    text = re.sub(r"    (duplicates|interaction_weights|user_features|item_features|new_item_fraction):.*\n", "", text)
    (runs.folder / "lists.yaml").write_text(text.replace("  source:\n", "  source: {format: adjacency, path: 'a-*.txt'}\n"))
    runs.space.call("prepare", "lists.yaml", "--quiet", "--set", "data.file=lists.h5")
    given = {"data.source.path": "a-1.txt", "data.source.validation_path": "validation.txt", "data.source.test_path": "test.txt"}
    given |= {"data.prepare.split": "given", "data.file": "given.h5", "data.prepare.validation_users": "0"}
    for parts in ({}, {"data.prepare.validation_users": "10", "data.file": "both.h5"}):
        runs.space.call("prepare", "lists.yaml", "--quiet", *runs.settings({**given, **parts}))
    runs.space.call("synthesize", "synthetic.h5", "--users", "60", "--items", "120", "--user-columns", "2", "--quiet")
    runs.space.call("synthesize", "large.h5", "--users", "60", "--items", "12000", "--validation-users", "5", "--test-users", "5", "--quiet")


def write_runs(runs: Runs) -> None:
    """Runs everything that writes events or files of runs."""
    steps = {"run__checkpoint_every": "{steps: 3}", "run__keep_checkpoints": "9"}
    runs.run("mult_vae", "--per-user", "per-user.h5")
    runs.run("mult_vae", "--benchmark")
    folder = runs.run("resumed", "--train", **steps)
    runs.run("resumed", "--train", "--resume", str(folder / "checkpoints" / "step-00000003.h5"), **steps)
    for name in ("mult_dae", "recvae", "elsa"):
        runs.run(name, "--train", model__type=name)
    plain = {"data__file": "synthetic.h5"}
    runs.run("autoencoder", "--train", model__type="autoencoder", model__user_features="off", **plain)
    ease = {"model__type": "ease", "model__ease__l2": "[20, 50]"}
    runs.run("ease", **ease)
    runs.run("ease", "--train", "--resume", "auto", **ease)
    runs.run("item_knn", "--train", model__type="item_knn")
    low_rank = {"model__low_rank__factors": "3", "model__type": "ease", "model__ease__neighbors": "5"}
    runs.run("low_rank", "--train", **low_rank)
    runs.run("left_out", data__file="large.h5", model__hidden="[2]", evaluation__baselines="auto", train__epochs="1")
    every = {"run__checkpoint_every": "1"}
    (runs.folder / "runs" / "blocked" / "checkpoints" / "epoch-0001.h5" / "x").mkdir(parents=True)
    runs.run("blocked", "--train", **every)
    optimizer = "{type: sgd, learning_rate: 1e30}"
    runs.run("diverged", "--train", code=1, train__optimizer=optimizer)
    runs.run("two", "--train", "--benchmark", ranks=2)
    served = {"distributed__strategy": "parameter_server", "distributed__parameter_server__updates": "asynchronous"}
    runs.run("served", "--train", "--benchmark", ranks=3, **served)


@pytest.fixture(name="runs", scope="module")
def _runs(program: str, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Returns a folder with datasets and runs of all kinds."""
    runs = Runs(program, tmp_path_factory.mktemp("formats"))
    write_sources(runs.folder)
    write_datasets(runs)
    write_runs(runs)
    return runs


@pytest.fixture(name="written", scope="module")
def _written(runs: Runs) -> set[tuple[str, str, str]]:
    """Returns what files of all kinds contain."""
    found: set[tuple[str, str, str]] = set()
    for name in ("data", "stable", "time", "dates", "lists", "given", "both", "synthetic", "large"):
        found |= set(of_hdf5("dataset", runs.folder / f"{name}.h5"))
    for log in sorted(runs.folder.glob("runs/*/metrics.jsonl")):
        for line in log.read_text().splitlines():
            found |= set(of_event(json.loads(line)))
    for path in runs.folder.glob("runs/*/checkpoints/*.h5"):
        if path.is_file():
            found |= set(of_hdf5("checkpoint", path))
    found |= set(of_hdf5("per-user", runs.folder / "per-user.h5"))
    found |= lists_of(runs)
    found |= tables_of(runs)
    return found | files_of(runs)


def lists_of(runs: Runs) -> set[tuple[str, str, str]]:
    """Returns what recommend, evaluate and similar write."""
    found: set[tuple[str, str, str]] = set()
    checkpoint = ["--checkpoint", "runs/mult_vae/checkpoints/best.h5", "--titles", "--quiet"]
    lists = ["recommend", "config.yaml", "--split", "test", "--reasons", "2", "--top", "3", *checkpoint[2:]]
    similar = ["similar", *checkpoint, "--item", "3", "--item", "4", "--top", "3"]
    for command, name in ((lists, "recommend"), (similar, "similar")):
        for ending in ("tsv", "csv"):
            runs.space.call(*command, "--output", f"{name}.{ending}")
            with open(runs.folder / f"{name}.{ending}", encoding="utf-8") as file:
                head = next(csv.reader(file, delimiter="\t" if ending == "tsv" else ","))
            found |= {("columns", name, re.sub(r"_\d+$", "_R", column)) for column in head}
        runs.space.call(*command, "--output", f"{name}.h5")
        found |= set(of_hdf5(name, runs.folder / f"{name}.h5"))
        runs.space.call(*command, "--output", f"{name}.jsonl")
        for line in (runs.folder / f"{name}.jsonl").read_text().splitlines():
            found |= {("fields", name, key) for key in json.loads(line)}
    runs.space.call("evaluate", "data.h5", "--lists", "recommend.csv", "--per-user", "lists.per-user.h5", "--metrics", "ndcg@10")
    found |= set(of_hdf5("per-user", runs.folder / "lists.per-user.h5"))
    return found


def tables_of(runs: Runs) -> set[tuple[str, str, str]]:
    """Returns the columns of the tables of compare, scaling and sweep."""
    from vaecf.commands.sweep import Sweep  # pylint: disable=import-outside-toplevel

    shutil.copy(runs.folder / "per-user.h5", runs.folder / "other.h5")
    assert main(["compare", str(runs.folder / "per-user.h5"), str(runs.folder / "other.h5"), "--csv", str(runs.folder / "compare.csv")]) == 0
    with open(runs.folder / "compare.csv", encoding="utf-8") as file:
        found = {("columns", "compare", column) for column in next(csv.reader(file))}
    found |= {("columns", "scaling", column) for column in scaling_text.COLUMNS.split(",")}

    class Trial:
        number, value, params = 0, 0.5, {"KEY": 1}
        user_attrs: dict[str, Any] = {}
        state = type("State", (), {"name": "COMPLETE"})()

    sweep = object.__new__(Sweep)
    sweep.metric = "METRIC"
    sweep.parameters = [type("Parameter", (), {"key": "KEY"})()]  # type: ignore[list-item]
    sweep.states = type("States", (), {"COMPLETE": Trial.state})
    sweep.finished = lambda study: [Trial]  # type: ignore[method-assign]
    return found | {("columns", "sweep", column) for column in sweep.rows(None)[0]}


def files_of(runs: Runs) -> set[tuple[str, str, str]]:
    """Returns the names of files in run folders, also of those that scripts and Python write."""
    root, folder = PAGE.parents[1], runs.folder / "runs" / "mult_vae"
    job = ["bash", "-c", '. "$0"; run_folder=$1; furthest=3; fruitless=0; record_start']
    environment = {**os.environ, "SLURM_JOB_ID": "7"}
    subprocess.run([*job, str(root / "launch" / "slurm" / "job.sh"), str(folder)], env=environment, check=True)
    assert "recommendations=runs/quickstart/recommendations.tsv" in (root / "launch" / "quickstart").read_text()
    assert '"per-user.h5"' in (root / "python" / "vaecf" / "training.py").read_text()
    names = {"per-user.h5", "recommendations.tsv"}
    for path in (runs.folder / "runs").glob("*/**/*"):
        name = str(path.relative_to(runs.folder / "runs").as_posix()).partition("/")[2]
        name = re.sub(r"epoch-\d+", "epoch-0002", re.sub(r"step-\d+", "step-00000010", name))
        if path.is_file() and "blocked" not in str(path):
            names.add(name.replace("aside/step-00000010", "aside/epoch-0002").replace("aside/best", "aside/epoch-0002"))
    return {("file", "run folder", name) for name in names}


def test_page_lists_exactly_what_is_written(written: set[tuple[str, str, str]]) -> None:
    listed = on_the_page()
    missing = "".join(f"\n{' '.join(each)}" for each in sorted(written - listed))
    unwritten = "".join(f"\n{' '.join(each)}" for each in sorted(listed - written - OF_GPUS - OF_ARCHIVES))
    assert not missing + unwritten, f"written, but not on the page: {missing}\non the page, but not written: {unwritten}"


def test_checkpoint_begins_with_the_bytes_of_the_page(runs: Runs) -> None:
    checkpoints = sorted((runs.folder / "runs").glob("*/checkpoints/best.h5"))
    assert checkpoints
    for path in checkpoints:
        content = path.read_bytes()
        mark, number, zeros, length, _ = struct.unpack_from("<8sI4sQQ", content)
        assert (mark, number, zeros, length) == (b"VAECFCKP", 3, bytes(4), len(content) - 512), path
        assert content[32:512] == bytes(480), path


def names_in(value: Any, before: str = "") -> Iterator[str]:
    """Yields the dotted names of the keys of JSON or YAML; those of a configuration in it are dotted from there."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        name = before if isinstance(value, list) else f"{before}{key}."
        yield from () if isinstance(value, list) else (name[:-1],)
        yield from names_in(each, "" if key == "config" else name)


def names_of_file(path: Path) -> Iterator[str]:
    """Yields the names of keys, fields, columns, arrays, attributes, tensors and inputs in a file."""
    if path.suffix in (".yaml", ".json"):
        yield from names_in(yaml.safe_load(path.read_text()))
    elif path.suffix == ".jsonl":
        for line in path.read_text().splitlines():
            yield from names_in(json.loads(line))
    elif path.suffix in (".csv", ".tsv"):
        yield from re.split("[,\t]", path.read_text().partition("\n")[0])
    elif path.suffix == ".safetensors":
        content = path.read_bytes()
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        yield from (*header, *header["__metadata__"])
    elif path.suffix == ".onnx":
        content = path.read_bytes()  # The length is before each text.
        found = re.finditer(rb"[a-z_]+", content)
        yield from (each[0].decode() for each in found if each.start() and content[each.start() - 1] == len(each[0]))
    elif path.suffix == ".h5":
        with h5py.File(path, "r") as file:
            places: list[tuple[str, Any]] = [("", file)]
            file.visititems(lambda name, each: places.append((f"/{name}", each)))
            for name, each in places:
                yield from (name, *(f"{name}/@{attribute}" for attribute in each.attrs))
            yield from names_in(yaml.safe_load(file.attrs.get("configuration", "{}")))


def test_no_old_name_is_written(runs: Runs, written: set[tuple[str, str, str]]) -> None:
    renames = runpy.run_path(str(PAGE.parents[1] / "tools" / "same_results" / "renames.py"))
    assert written  # also lists and tables
    for ending in ("safetensors", "onnx"):
        runs.space.call("export", "runs/mult_vae/checkpoints/best.h5", "--output", f"model.{ending}", "--quiet")
    found = {ending: set[str]() for ending in (".h5", ".jsonl", ".yaml", ".csv", ".tsv", ".safetensors", ".onnx")}
    for path in runs.folder.glob("**/*"):
        if path.is_file():
            found.setdefault(path.suffix, set()).update(names_of_file(path))
    assert {"/train/interaction_weights", "/@user_features", "evaluation.metrics"} <= found[".h5"]
    assert {"interaction_weights", "user_features"} <= found[".onnx"] and all(found[ending] for ending in (".jsonl", ".csv"))
    old = {
        f"{name} in a file {ending}"
        for ending, names in found.items()
        for name in names
        if renames["to_new_path"](name) != name or renames["to_new"](name) != name or name.rpartition(".")[2] in renames["NAMES"]
    }
    assert not old


def test_dataset_by_hand_of_the_page_is_trained_and_tested(program: str, tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", sections()["Datasets"], re.DOTALL)
    assert code
    subprocess.run([sys.executable, "-c", code[1]], cwd=tmp_path, check=True)
    space = Workspace(program, tmp_path)
    (tmp_path / "config.yaml").write_text("name: own\ndata: {file: by-hand.h5}\nmodel: {type: item_knn}\nevaluation: {baselines: []}\n")
    assert "items: 4" in space.call("inspect", "by-hand.h5")
    space.call("config.yaml", "--quiet")
    assert "tea" in space.call("similar", "--checkpoint", "runs/own/checkpoints/best.h5", "--item", "cocoa", "--quiet")
