"""vaecf.sweep() and vaecf.train(resume=True), with vaecf_dist."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import vaecf

KEY = "model.elsa.factors"
SEARCH: dict[str, Any] = {KEY: {"choices": [4, 8]}, "train.optimizer.learning_rate": {"range": [1e-3, 1e-1], "log": True}}
SHORT = {"train.epochs": 2, "train.batch_size": 50, "evaluation.metrics": ["ndcg@100", "recall@20"]}


def interrupt_after_an_epoch(run: Path) -> threading.Thread:
    """Interrupts this process after the first epoch of a run."""

    def wait() -> None:
        log = run / "metrics.jsonl"
        end = time.monotonic() + 60
        while time.monotonic() < end and not (log.is_file() and '"event":"epoch"' in log.read_text()):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_best_trial_of_a_search_is_tested(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    common: dict[str, Any] = {"model": "elsa", "settings": SHORT}
    first = vaecf.sweep("own.h5", SEARCH, trials=1, progress=False, **common)
    assert capsys.readouterr().out == "" and first.path == Path("runs/sweep-own-elsa") and len(first.trials) == 1
    found = vaecf.sweep(vaecf.Dataset("own.h5"), SEARCH, trials=3, **common)
    assert "3 trials: 3 complete" in capsys.readouterr().out
    assert found.trials["ndcg@100"].is_monotonic_decreasing and set(found.trials["trial"]) == {0, 1, 2}
    assert found.best.path.name == found.trials["folder"].iloc[0]
    assert found.best.config[KEY] == found.trials[KEY].iloc[0] and found.best.config["train.epochs"] == 2
    assert found.best.validation["ndcg@100"].max() == pytest.approx(found.trials["ndcg@100"].iloc[0])
    assert found.best.test["recall@20"].notna().all() and (found.best.path / "per-user.h5").is_file()
    assert vaecf.report(found.path).html.startswith("<!DOCTYPE html>")
    (space / "search.yaml").write_text(f"{KEY}: {{choices: [4]}}\n")
    of_file = vaecf.sweep("own.h5", "search.yaml", trials=1, name="file", directory="other", progress=False, **common)
    assert of_file.path == Path("other/sweep-file")


def test_wrong_searches_are_input_errors(space: Path) -> None:
    pytest.importorskip("optuna")
    common: dict[str, Any] = {"model": "elsa", "progress": False}
    for search, arguments, message in (
        ({"model.elsa.factor": {"choices": [4]}}, {}, "^search: model.elsa.factor is not a key"),
        ({KEY: [4, 8]}, {}, "^search: model.elsa.factors: must be"),
        ({}, {}, "^search: must contain"),
        (SEARCH, {"trials": 0}, "^trials=? must be at least 1, got 0"),
        (SEARCH, {"timeout": "soon"}, "^timeout= must be seconds"),
        (SEARCH, {"settings": {KEY: 4}}, "this key is searched by search"),
        (SEARCH, {"settings": {"model.type": "elsa"}}, "settings: model.type is also given"),
        (SEARCH, {"settings": {"train.epoch": 4}}, "^train.epoch is not a key"),
        (SEARCH, {"settings": {"name": "x"}}, "^name: is set by the sweep; use name="),
        ("none.yaml", {}, "none.yaml"),
    ):
        with pytest.raises(vaecf.InputError, match=message):
            vaecf.sweep("own.h5", search, **{**common, **arguments})
    with pytest.raises(vaecf.InputError, match="none.h5"):
        vaecf.sweep("none.h5", SEARCH, trials=1, **common)


def test_search_without_a_complete_trial_is_a_run_error(space: Path, program: str) -> None:
    pytest.importorskip("optuna")
    size = ["--users", "50", "--items", "120", "--validation-users", "0", "--test-users", "5"]
    subprocess.run([program, "synthesize", space / "few.h5", *size, "-q"], check=True)
    with pytest.raises(vaecf.RunError, match="sweep-few-elsa: no trial is complete; .*requires validation users"):
        vaecf.sweep("few.h5", SEARCH, model="elsa", trials=1, progress=False, settings=SHORT)


def test_interrupt_stops_a_search_with_a_checkpoint(space: Path) -> None:
    pytest.importorskip("optuna")
    thread = interrupt_after_an_epoch(space / "runs/sweep-own-elsa/trial-0000")
    with pytest.raises(vaecf.Stopped, match="the same call continues it") as stopped:
        vaecf.sweep("own.h5", SEARCH, model="elsa", trials=1, progress=False, settings={**SHORT, "train.epochs": 10**6})
    thread.join()
    assert stopped.value.folder == Path("runs/sweep-own-elsa")
    assert len(vaecf.Run("runs/sweep-own-elsa/trial-0000").checkpoints) > 1


def test_resumed_run_goes_on(space: Path) -> None:
    common: dict[str, Any] = {"model": "elsa", "batch_size": 50, "progress": False, "settings": {KEY: 4}}
    run = vaecf.train("own.h5", epochs=1, resume=True, **common)
    assert run.epochs.index.tolist() == [1]
    longer = vaecf.train("own.h5", epochs=3, resume=True, **common)
    assert longer.epochs.index.tolist() == [1, 2, 3] and longer.path == run.path and not (space / "runs/own-elsa.1").exists()
    thread = interrupt_after_an_epoch(space / "runs" / "long")
    with pytest.raises(KeyboardInterrupt, match="continue with resume=True"):
        vaecf.train("own.h5", name="long", epochs=10**6, **common)
    thread.join()
    done = len(vaecf.Run("runs/long").epochs)
    again = vaecf.train("own.h5", name="long", epochs=done + 2, resume=True, **common)
    assert again.epochs.index.tolist() == list(range(1, done + 3)) and again.last("test")
    with pytest.raises(vaecf.InputError, match="resume= continues a run, and start_from= begins another one"):
        vaecf.train("own.h5", start_from=run, resume=True, **common)
    with pytest.raises(vaecf.InputError, match="model.elsa.factors"):
        vaecf.train("own.h5", epochs=3, resume=True, **{**common, "settings": {KEY: 8}})
