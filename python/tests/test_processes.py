"""vaecf.Model in several threads and processes, and without its library."""

import gc
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import Workspace

import vaecf
from vaecf import library

NAMES = ["recvae", "elsa", "ease", "ease_k"]


def _lists(model: vaecf.Model, rows: np.ndarray) -> pd.DataFrame:
    return model.recommend(rows, k=9, reasons=2)


@pytest.fixture(name="rows")
def _rows(workspace: Workspace) -> np.ndarray:
    return np.asarray(vaecf.Dataset(workspace.folder / "data.h5").test.fold_in.toarray())


def _model(workspace: Workspace, name: str) -> vaecf.Model:
    return vaecf.Run(workspace.folder / "runs" / name).model()


@pytest.mark.parametrize("name", NAMES)
def test_forked_processes_recommend_after_their_parent_did(
    workspace: Workspace, rows: np.ndarray, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    shutil.copy(_model(workspace, name).path, workspace.folder / f"{name}.forked.h5")
    model = vaecf.Model(workspace.folder / f"{name}.forked.h5")  # with three threads
    expected = _lists(model, rows)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for found in pool.starmap_async(_lists, [(model, rows)] * 4).get(timeout=120):
            pd.testing.assert_frame_equal(found, expected)
    # In place, and with a model that the child opens.
    path = workspace.folder / f"{name}.child"
    child = os.fork()
    if child == 0:
        try:
            copy = vaecf.Model(shutil.copy(model.path, f"{path}.h5"))
            same = _lists(model, rows).equals(expected) and _lists(copy, rows).equals(expected)
            path.write_text(str(same))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert path.read_text() == "True"


@pytest.mark.parametrize("name", ["recvae", "elsa"])
def test_processes_are_forked_while_other_threads_compute(workspace: Workspace, rows: np.ndarray, name: str) -> None:
    model = _model(workspace, name)
    expected = _lists(model, rows)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            model.recommend(rows, k=9, include=model.item_id[:50], reasons=1)

    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(work) for _ in range(2)]
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if _lists(model, rows).equals(expected) else 1)
            for _ in range(600):
                found, status = os.waitpid(child, os.WNOHANG)
                if found:
                    break
                time.sleep(0.1)
            else:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                status = -1
            if status != 0:
                stop.set()
            assert status == 0
        stop.set()
        for call in calls:
            call.result()


def test_a_daemon_thread_may_compute_at_exit(workspace: Workspace) -> None:
    code = (
        "import sys, threading, time, numpy as np, vaecf\n"
        "model = vaecf.Model(sys.argv[1])\n"
        "rows = np.ones((1024, model.n_items)) * (np.arange(model.n_items) % 3 > 0)\n"
        "def work():\n"
        "    while True: model.recommend(rows, k=50, reasons=3)\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.5)\n"
    )
    for name in ("ease", "recvae"):
        command = [sys.executable, "-c", code, str(_model(workspace, name).path)]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib_shares_a_model(workspace: Workspace, rows: np.ndarray, backend: str) -> None:
    joblib = pytest.importorskip("joblib")
    model = _model(workspace, "ease")
    calls = [joblib.delayed(vaecf.Model.recommend)(model, rows, 9, reasons=2) for _ in range(3)]
    for found in joblib.Parallel(n_jobs=2, backend=backend, timeout=120)(calls):
        pd.testing.assert_frame_equal(found, _lists(model, rows))


@pytest.mark.parametrize("name", NAMES)
def test_threads_use_one_model(workspace: Workspace, rows: np.ndarray, name: str) -> None:
    model = _model(workspace, name)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: _lists(model, rows), range(8)):
            pd.testing.assert_frame_equal(found, _lists(model, rows))


def test_models_of_a_file_share_its_weights_until_it_is_replaced(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "best.h5"
    shutil.copy(_model(workspace, "ease").path, path)
    first, second = vaecf.Model(path), vaecf.Model(str(path))
    assert first._loaded is second._loaded
    text = pickle.dumps(first)
    assert len(text) < 1000 and pickle.loads(text)._loaded is first._loaded
    shutil.copy(_model(workspace, "elsa").path, tmp_path / "new.h5")
    os.replace(tmp_path / "new.h5", path)
    assert vaecf.Model(path).type == "elsa" and first.type == "ease"
    expected = _lists(_model(workspace, "ease"), np.eye(3, 120))
    pd.testing.assert_frame_equal(_lists(first, np.eye(3, 120)), expected)
    with pytest.raises(vaecf.InputError, match="another checkpoint than that of the pickled model"):
        pickle.loads(text)
    monkeypatch.chdir(tmp_path)
    text = pickle.dumps(vaecf.Model("best.h5"))
    monkeypatch.chdir("/")
    assert pickle.loads(text).type == "elsa"
    left = weakref.ref(first._loaded)
    del first, second
    gc.collect()
    assert left() is None


def test_without_the_library_a_message_says_what_to_install(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(Path(vaecf.__file__).parent, tmp_path / "vaecf")
    code = "import vaecf, sys; vaecf.Model(sys.argv[1])"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VAECF_")}
    environment |= {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", code, str(_model(workspace, "ease").path)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 1
    assert "libvaecf.so.1 does not exist, with which vaecf.Model computes; install the package" in result.stderr
    library._library.cache_clear()
    for path, message in (("/nowhere/libvaecf.so.1", "^/nowhere/libvaecf.so.1 does not exist"), (__file__, "cannot be loaded")):
        monkeypatch.setenv("VAECF_LIBRARY", path)
        with pytest.raises(vaecf.InputError, match=message):
            library._library()
    monkeypatch.undo()
    monkeypatch.setattr(library, "__version__", "1.0.7")
    with pytest.raises(vaecf.InputError, match="has version 1.0.0, but this package 1.0.7; install both"):
        library._library()
    library._library.cache_clear()


def test_a_damaged_checkpoint_is_an_error(workspace: Workspace, tmp_path: Path) -> None:
    content = bytearray(_model(workspace, "ease").path.read_bytes())
    content[-9] ^= 1
    (tmp_path / "damaged.h5").write_bytes(content)
    with pytest.raises(vaecf.InputError, match="damaged.h5: is damaged: its checksum does not match"):
        vaecf.Model(tmp_path / "damaged.h5")
