"""Fixtures that the tests share."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

if "VAECF_PROGRAM" in os.environ:
    # The library of the build that is tested.
    library = Path(os.environ["VAECF_PROGRAM"]).resolve().parent.parent / "lib" / "libvaecf.so.1"
    os.environ.setdefault("VAECF_LIBRARY", str(library))

CONFIG = """
name: base
data: {file: data.h5}
model: {type: mult_vae, hidden: [24], latent: 8, dropout: 0.5}
train: {epochs: 3, batch_size: 50, precision: fp32, annealing: {cap: 0.2, steps: 20}}
evaluation: {metrics: [ndcg@100, recall@20, coverage@10], baselines: [popularity, item_knn]}
"""

# Keys in which the run of a type of model differs from CONFIG.
SETTINGS = {
    "mult_vae": ["model.hidden=[24,16]"],
    "elsa": ["model.elsa.factors=16"],
    "ease": ["model.ease.l2=[50,200]", "model.ease.dropout=0.2", "model.ease.relax=0.4"],
    "item_knn": ["model.item_knn.neighbors=20", "model.item_knn.shrink=5"],
}
SCHEMA = json.loads((Path(__file__).parents[2] / "configs" / "schema.json").read_text())
TYPES = SCHEMA["properties"]["model"]["properties"]["type"]["enum"]
# One run per type of model, and others of the same types.
MODELS = {name: [f"model.type={name}", *SETTINGS.get(name, [])] for name in TYPES} | {
    "ease_k": ["model.type=ease", "model.ease.l2=50", "model.ease.neighbors=20", "model.ease.user_power=0.5"],
    "autoencoder_multinomial": [
        "model.type=autoencoder",
        "model.autoencoder.activation=tanh",
        "model.autoencoder.loss=multinomial",
        "model.autoencoder.initial_deviation=0.1",
    ],
    "mult_vae_features": ["data.file=features.h5"],
    "recvae_features": ["data.file=features.h5", "model.type=recvae"],
}
# A network, a linear model, and dense and sparse solutions: each reads the interaction weights in another way.
WEIGHTED = ["mult_vae", "elsa", "ease", "ease_k", "item_knn"]
MODELS |= {f"{name}_weighted": ["data.file=weighted.h5", *MODELS[name]] for name in WEIGHTED}


@pytest.fixture(name="program", scope="session")
def _program() -> str:
    """Returns the path of vaecf_dist, which the variable VAECF_PROGRAM sets."""
    program = os.environ.get("VAECF_PROGRAM", "")
    if not program:
        pytest.skip("VAECF_PROGRAM is not set to vaecf_dist")
    return program


@dataclass(frozen=True)
class Workspace:
    """A folder with datasets and with a run of each type of model, in which vaecf_dist is called."""

    program: str
    folder: Path

    def execute(self, command: list[str], environment: dict[str, str], code: int = 0) -> str:
        """Runs a command in the folder and returns its output; fails if the exit code is not `code`."""
        result = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == code, result.stdout + result.stderr
        return result.stdout

    def call(self, *arguments: str) -> str:
        """Runs vaecf_dist and returns its output; fails if the exit code is not 0."""
        return self.execute([self.program, *arguments], {**os.environ, "OMP_NUM_THREADS": "1"})

    def train(self, name: str, settings: list[str], *options: str) -> Path:
        """Trains and tests a model, and returns its run folder."""
        pairs = [argument for setting in (f"name={name}", *settings) for argument in ("--set", setting)]
        self.call("config.yaml", *pairs, "-q", *options)
        return self.folder / "runs" / name


def make_weighted(path: Path) -> None:
    """Adds interaction weights to a dataset, those of play counts with data.prepare.interaction_weights: log1p."""
    random = np.random.default_rng(5)
    with h5py.File(path, "r+") as file:
        for name in ("train", "validation/fold_in", "test/fold_in"):
            counts = np.diff(file[name]["indptr"])
            row = np.repeat(np.arange(len(counts)), counts)
            weights = np.log1p(random.geometric(0.2, len(row)))
            means = np.bincount(row, weights, len(counts)) / np.maximum(counts, 1)
            file[name]["interaction_weights"] = (weights / means[row]).astype(np.float32)
        file.attrs["interaction_weights"] = np.bytes_("log1p")


def make_new_items(path: Path, count: int) -> None:
    """Makes the last items of a dataset new: without train interactions."""
    with h5py.File(path, "r+") as file:
        items = int(file.attrs["items"])
        train = sp.csr_matrix((np.ones(len(file["train/indices"])), file["train/indices"][:], file["train/indptr"][:]))
        train = sp.csr_matrix(train[:, : items - count])
        for name, values in (("indptr", train.indptr), ("indices", train.indices)):
            dtype = file["train"][name].dtype
            del file["train"][name]
            file["train"][name] = values.astype(dtype)
        file.attrs["new_items"] = np.int64(count)


@pytest.fixture(name="workspace", scope="session")
def _workspace(program: str, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Returns datasets and runs, each with the metrics of each test user in NAME.per-user.h5."""
    space = Workspace(program, tmp_path_factory.mktemp("workspace"))
    size = ["--users", "400", "--items", "120", "--validation-users", "40", "--test-users", "60"]
    space.call("synthesize", "data.h5", *size)
    space.call("synthesize", "features.h5", *size, "--user-columns", "2")
    shutil.copy(space.folder / "data.h5", space.folder / "weighted.h5")
    make_weighted(space.folder / "weighted.h5")
    (space.folder / "config.yaml").write_text(CONFIG)
    for name, settings in MODELS.items():
        space.train(name, settings, "--per-user", f"{name}.per-user.h5")
    return space


@pytest.fixture(name="space")
def _space(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own current folder with the dataset own.h5."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VAECF_PROGRAM", workspace.program)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "own.h5").symlink_to(workspace.folder / "data.h5")
    return tmp_path


def child_of(process: "subprocess.Popen[Any]") -> int:
    """Returns the id of the only child process of a process."""
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(child)


def has_ended(process: int) -> bool:
    """Returns whether a process has ended, also if nobody has waited for it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture(name="wait_for", scope="session")
def _wait_for() -> Callable[[Callable[[], object]], None]:
    """Returns a function that waits until its argument returns a true value, and fails after a minute."""

    def wait(happened: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    return wait


VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """The headings, tables and charts of a page. Fails if elements are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.captions: list[str] = []
        self.words = ""
        self.tables: dict[str, list[list[str]]] = {}
        self.svgs: list[dict[str, str | None]] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self._open: list[str] = []
        self._table: list[list[str]] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [value or "" for key, value in attrs if key in ("href", "src", "xlink:href")]
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self._table = self.tables.setdefault(values.get("id") or "", [])
        elif tag == "tr":
            self._table.append([])
        elif tag in ("td", "th"):
            self._table[-1].append("")
        elif tag == "svg":
            self.svgs.append(values)

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or (self._open and self._open.pop() == tag)

    def handle_data(self, data: str) -> None:
        self.words += data
        if self._open and self._open[-1] in ("h1", "h2"):
            self.headings.append(data)
        if self._open and self._open[-1] == "figcaption":
            self.captions.append(data)
        if any(tag in self._open for tag in ("td", "th")):
            self._table[-1][-1] += data

    def check_self_contained(self, text: str) -> None:
        """Fails if the page would load anything or runs a script."""
        assert "script" not in self.tags and not {"link", "img", "iframe", "object"} & set(self.tags)
        assert all(link.startswith("#") for link in self.links)
        assert not re.search(r"https?:|@import|url\((?!#)", text)
        assert len(set(self.ids)) == len(self.ids)
        assert {link[1:] for link in self.links} <= set(self.ids)
        assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(self.ids)
