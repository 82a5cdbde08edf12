"""vaecf.train() with vaecf_dist itself."""

import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import Workspace

import vaecf
from vaecf import wording

ROOT = Path(__file__).parents[2]

SMALL = {"batch_size": 50, "settings": {"model.hidden": [24], "model.latent": 8, "train.annealing.steps": 20}}


def test_training_returns_the_run_with_the_given_keys(space: Path) -> None:
    data = vaecf.Dataset(space / "own.h5")
    run = vaecf.train(
        data,
        epochs=np.int64(2),
        learning_rate=3e-3,
        seed=7,
        device="cpu",
        precision="fp32",
        directory="all runs",
        **SMALL,
    )
    assert run.path == Path("all runs/own-mult_vae") and run.epochs.index.tolist() == [1, 2]
    expected = {"train.optimizer.learning_rate": 0.003, "train.seed": 7, "model.hidden": [24], "device": "cpu"}
    assert {key: run.config[key] for key in expected} == expected
    assert not run.test.empty and (run.path / "per-user.h5").is_file()
    again = vaecf.train(
        str(data.path), name="own: 2", model="ease", per_user=False, settings={"model.ease.l2": [100, 300]}
    )
    assert again.name == "own: 2" and again.solutions["l2"].tolist() == [100, 300]
    assert not (again.path / "per-user.h5").exists()


def test_training_starts_from_the_weights_and_settings_of_a_run(space: Path) -> None:
    first = vaecf.train("own.h5", epochs=2, progress=False, **SMALL)
    second = vaecf.train("own.h5", start_from=first, name="second", progress=False)
    assert second.config["model.hidden"] == [24] and second.config["train.epochs"] == 2
    assert second.validation["ndcg@100"].iloc[0] > first.validation["ndcg@100"].iloc[0]
    solved = vaecf.train("own.h5", model="item_knn", settings={"model.item_knn.neighbors": 7}, progress=False)
    log = solved.path / "metrics.jsonl"
    log.write_text("".join(line for line in log.read_text().splitlines(True) if not line.startswith('{"event":"solve"')))
    assert vaecf.train("own.h5", start_from=solved.path, name="k").config["model.item_knn.neighbors"] == 7


def test_model_weighs_its_input_by_the_rules_of_its_dataset(workspace: Workspace, space: Path) -> None:
    lines = [f"u{user},{item},{1 + (user + item) % 5}\n" for user in range(60) for item in range(user % 7, 12)]
    Path("plays.csv").write_text("user,item,plays\n" + "".join(lines * 2))
    rules = {"rating": "plays", "min_rating": 1, "duplicates": "sum", "split": "random", "min_user_items": 2}
    data = vaecf.prepare(
        "plays.csv", file="plays.h5", user="user", item="item", validation_users=10, test_users=10,
        settings={"data.prepare.interaction_weights": "log1p"}, **rules,
    )  # fmt: skip
    first = vaecf.train(data, model="elsa", epochs=1, progress=False, settings={"model.elsa.factors": 4})
    second = vaecf.train(data, start_from=first, name="second", progress=False)
    for run in (first, second):
        assert run.config["data.prepare.duplicates"] == "sum" and run.config["data.prepare.interaction_weights"] == "log1p"
        # Lines of one item are added, as in the dataset, and not the first one alone.
        scores = []
        for plays in (["0,2", "0,5", "1,3"], ["0,7", "1,3"]):
            Path("new.csv").write_text("user,item,plays\n" + "".join(f"x,{line}\n" for line in plays))
            command = [workspace.program, "recommend", "--checkpoint", str(run.path / "checkpoints" / "best.h5")]
            command += ["--input", "new.csv", "--interaction-weight-column", "plays", "-q"]
            scores.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        assert scores[0] == scores[1]


def test_dataset_without_test_users_is_trained_on_by_ranks(workspace: Workspace, space: Path) -> None:
    size = ["--users", "400", "--items", "120", "--validation-users", "40", "--test-users", "0"]
    subprocess.run([workspace.program, "synthesize", "small.h5", *size], check=True, capture_output=True)
    run = vaecf.train(space / "small.h5", model="elsa", epochs=2, ranks=2, progress=False, **{**SMALL, "settings": {}})
    assert run.start["ranks"] == 2 and run.test.empty and len(run.epochs) == 2


def test_progress_shows_epochs_and_the_metric(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    run = vaecf.train(space / "own.h5", epochs=3, **SMALL)
    shown = capsys.readouterr().err.split("\r")[-1]
    best = f"{run.validation['ndcg@100'].max():.4f}"
    assert re.match(r"own-mult_vae: 100%.* 3/3 ", shown) and f"best {best}, epochs]" in shown


def test_progress_into_a_file_is_lines_at_long_intervals(
    space: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tqdm")
    epochs = {"epochs": 40, "per_user": False, **SMALL}
    monkeypatch.setattr("vaecf.training.SECONDS_PER_LINE", 1e9, raising=False)
    vaecf.train(space / "own.h5", **epochs)
    shown = capsys.readouterr().err
    assert re.fullmatch(r"own-mult_vae: 100%[^\r\n]* 40/40 [^\r\n]*epochs\]\n", shown)
    monkeypatch.setattr("vaecf.training.SECONDS_PER_LINE", 0)
    vaecf.train(space / "own.h5", **epochs)
    shown = capsys.readouterr().err
    assert shown.count("\n") > 1 and "\r" not in shown
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    vaecf.train(space / "own.h5", **epochs)
    assert capsys.readouterr().err.count("\r") > 1


def test_warnings_of_the_program_are_warnings(space: Path) -> None:
    with pytest.warns(UserWarning, match="^training ends after 6 updates"):
        vaecf.train(space / "own.h5", epochs=1, batch_size=50, progress=False, settings={"train.annealing.steps": 100})


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"settings": {"train.epohs": 3}}, "train.epohs is not a key"),
        ({"epochs": 3, "settings": {"train.epochs": 3}}, "train.epochs is also given by an argument"),
        ({"settings": {"data.file": "x"}}, "data.file is also given"),
        ({"settings": {"train.patience": 3, "validation.every": "never"}}, "^train.patience counts validations"),
        ({"settings": {"zzz.y": 'a: "b"'}}, "^zzz.y is not a key; the attribute config of a vaecf.Run has all keys$"),
        ({"model": "eese"}, "^model= must be one of"),
        ({"epochs": 0}, "^epochs= must be at least 1, got \"0\"$"),
        ({"directory": ""}, "^directory= must be"),
        ({"data": "nope.h5"}, "nope.h5: .*create a dataset with vaecf.prepare$"),
        ({"data": "missing.h5"}, "missing.h5: no such file"),
        ({"data": pd.DataFrame({"path": [1]})}, "a prepared dataset or its path, got a DataFrame; pass vaecf.prepare.table, "),
        ({"program": "nowhere"}, "nowhere does not exist"),
    ],
)
def test_wrong_arguments_are_input_errors(space: Path, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(vaecf.InputError, match=message) as found:
        vaecf.train(**{"data": space / "own.h5", "progress": False, **arguments})  # type: ignore[arg-type]
    assert "--" not in str(found.value) and "vaecf_dist" not in str(found.value)


def test_messages_about_a_run_name_arguments(space: Path) -> None:
    with pytest.warns(UserWarning, match="^a model of type ease does not use epochs=, seed= with") as found:
        vaecf.train(space / "own.h5", model="ease", epochs=1, seed=4, progress=False)
    assert len(found) == 1
    run = vaecf.train(space / "own.h5", epochs=1, name="start", progress=False, **SMALL)  # type: ignore[arg-type]
    with pytest.raises(vaecf.InputError, match="^start_from=: a model of type ease is solved at once"):
        vaecf.train(space / "own.h5", start_from=run, model="ease", progress=False)
    config = run.path / "config.yaml"
    config.write_text(config.read_text().replace("epochs: 1", "epochs: 0", 1))
    with pytest.raises(vaecf.InputError, match="config.yaml:[0-9]+: epochs= must be at least 1, got \"0\"$") as error:
        vaecf.train(space / "own.h5", start_from=run, progress=False)
    assert str(error.value).startswith(str(run.path))


PROGRAM_ONLY = (
    # Python gives keys with values, has no option for these, or never resumes.
    "must be KEY=VALUE, for example",
    "the value is not valid YAML",
    "with --resume auto",
    "--resume auto continues",
    "--resume never solves it again",
    "use --resume auto",
    "--timeline",
    "--test: {} does not exist",
    "checkpoints for --resume;",
    "steps of --benchmark;",
    "--set evaluation.baselines",
    "pass the same file and --set",
    "# --set train.epochs=2",
    "--file",  # of the program only, because Python passes a configuration to prepare
    "is also given by an option",
    "the two cuts of --split time",
)


def test_no_message_of_the_program_has_an_option_in_python(program: str) -> None:
    """Messages are the string literals below src/; only the files of prepare and of runs count of src/app."""
    usage = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    usage += subprocess.run([program, "prepare", "--help"], capture_output=True, text=True, check=True).stdout
    options = {*re.findall(r"(?<![\w-])--[a-z][a-z-]+", usage)} - {"--bind-to"}  # one of mpirun
    assert {"--set", "--train", "--replace", "--help-config", "--start-from"} <= options
    found = []
    sources = [*(ROOT / "src").rglob("*.cpp")]
    assert len(sources) > 100
    for source in sources:
        place = source.relative_to(ROOT / "src")
        if place.parts[0] == "app" and place.name not in ("run_command.cpp", "prepare_command.cpp", "rank_session.cpp"):
            continue
        for line in source.read_text().splitlines():
            literal = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', line)) if "add_" not in line else ""
            if len(literal.split()) < 2 or literal.startswith("  ") or any(words in literal for words in PROGRAM_ONLY):
                continue
            for text in (
                wording.training_words(literal, Path("/nowhere/train.yaml"), None),
                wording.python_words(literal, Path("/nowhere")),
            ):
                named = {*re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)} & options
                if named or "vaecf_dist prepare" in text:
                    found.append(f"{place}: {text}")
    assert not found, "\n".join(found)


def test_no_folder_is_made_for_a_wrong_dataset(space: Path) -> None:
    (space / "text.h5").write_text("no HDF5")
    for data in ("none.h5", "text.h5"):
        with pytest.raises(vaecf.InputError, match=data):
            vaecf.train(data, model="ease", progress=False)
    assert not (space / "runs").exists()


def test_names_outside_of_the_signature_are_type_errors(space: Path) -> None:
    with pytest.raises(TypeError, match="epoch"):
        vaecf.train(space / "own.h5", epoch=3)  # type: ignore[call-arg]


def _at_work(run: Path, signal_run: bool) -> threading.Thread:
    """Interrupts this process, or stops the run, after its first epoch."""

    def wait() -> None:
        log = run / "metrics.jsonl"
        end = time.monotonic() + 60
        while time.monotonic() < end and (not log.is_file() or '"event":"epoch"' not in log.read_text()):
            time.sleep(0.02)
        # Other tests leave children, too: the workers of joblib.
        command = ["pgrep", "-x", "-P", str(os.getpid()), "vaecf_dist"]
        children = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
        if signal_run and len(children) == 1:
            os.kill(int(children[0]), signal.SIGUSR1)
        else:
            signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize("ranks", [1, 2])
def test_interrupt_stops_with_a_checkpoint(space: Path, ranks: int) -> None:
    thread = _at_work(space / "runs" / "long", False)
    with pytest.raises(KeyboardInterrupt, match="runs/long/config.yaml --resume auto"):
        vaecf.train(space / "own.h5", name="long", epochs=10**6, ranks=ranks, progress=False, **SMALL)
    thread.join()
    run = vaecf.Run(space / "runs" / "long")
    assert run.last("end") == {} or run.last("end")["reason"] != "epochs"
    assert [path for path in run.checkpoints if path.name != "best.h5"]


def test_stopped_run_names_its_folder(space: Path) -> None:
    thread = _at_work(space / "runs" / "long", True)
    with pytest.raises(vaecf.Stopped, match="--resume auto") as stopped:
        vaecf.train(space / "own.h5", name="long", epochs=10**6, progress=False, **SMALL)
    thread.join()
    assert stopped.value.folder == Path("runs/long") and stopped.value.code == 75
