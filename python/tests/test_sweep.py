"""`vaecf sweep` with a program that stands in for vaecf_dist, and once with vaecf_dist itself."""

import csv
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import child_of, has_ended

from vaecf.cli import main
from vaecf.commands.sweep import parse_duration
from vaecf.errors import InputError
from vaecf.search_space import Parameter, read_search
from vaecf.trial import validations
from vaecf.yaml_files import flatten, load_yaml, parse_yaml

ROOT = Path(__file__).parents[2]

# Writes a run of 10 epochs whose metric is best at rate = 0.01 and in epoch 5. Its settings make it fail or wait.
STAND_IN = """
import json, pathlib, signal, sys, time
arguments = sys.argv[1:]
settings = dict(a.split("=", 1) for f, a in zip(arguments, arguments[1:]) if f == "--set")
config = {"name": "x", "rate": 0.001, "widths": "[600]", "mode": "ok", "validation.select": "ndcg@100",
          **dict(line.strip().split(": ") for line in open(arguments[0])), **settings}
unknown = set(config) - {"name", "rate", "widths", "mode", "validation.select", "run.directory", "run.checkpoint_every"}
if unknown or float(config["rate"]) > 1:
    print(f"vaecf_dist: {sorted(unknown) or 'rate must be at most 1'}", file=sys.stderr)
    sys.exit(2)
if "--print-config" in arguments:
    print("\\n".join(f"{key}: {value}" for key, value in config.items()))
    sys.exit(0)
assert "--train" in arguments and arguments[arguments.index("--resume") + 1] == "auto"
folder = pathlib.Path(config["run.directory"]) / config["name"]
folder.mkdir(parents=True, exist_ok=True)
if config["mode"] == "crash" and float(config["rate"]) < 0.01:
    print("epoch 1\\nvaecf_dist: the loss is not finite", file=sys.stderr)
    sys.exit(1)
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(75))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
waits = config["mode"] == "wait" and not (folder / "began").exists()
(folder / "began").touch()
with open(folder / "metrics.jsonl", "a") as log:
    for epoch in range(1, 11):
        value = 0.5 - abs(float(config["rate"]) - 0.01) - 0.001 * abs(epoch - 5)
        metric = config["validation.select"]
        value = 1 - value if metric.startswith("gini@") else value
        log.write(json.dumps({"event": "validation", "epoch": epoch, "metrics": {metric: {"value": value}}}) + "\\n")
        log.flush()
        if waits:
            time.sleep(60)
        if config["mode"] == "slow" and float(config["rate"]) > 0.1:
            time.sleep(0.3)
"""


@pytest.fixture(name="sweep")
def _sweep(tmp_path, monkeypatch):
    """Returns a function that runs `vaecf sweep` with the stand-in and returns the exit code."""
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    stand_in = tmp_path / "vaecf_dist"
    stand_in.write_text(f"#!{sys.executable} -IS\n{STAND_IN}")
    stand_in.chmod(0o755)
    (tmp_path / "c.yaml").write_text("name: base\n")
    (tmp_path / "s.yaml").write_text("rate: {range: [1e-4, 1e-1], log: true}\nwidths: {choices: [[600], [600, 200]]}\n")
    return lambda *more: main(["sweep", "c.yaml", "--search", "s.yaml", "--program", str(stand_in), *more])


def rows_of(folder):
    with open(folder / "trials.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_search_finds_the_best_rate_and_writes_table_and_configuration(sweep, tmp_path, capsys):
    assert sweep("--trials", "6") == 0
    folder = tmp_path / "runs" / "sweep-base"
    rows = rows_of(folder)
    assert [row["state"] for row in rows] == ["complete"] * 6
    values = [float(row["ndcg@100"]) for row in rows]
    assert values == sorted(values, reverse=True)
    for row in rows:  # The value of a trial is that of its best epoch.
        assert float(row["ndcg@100"]) == pytest.approx(0.5 - abs(float(row["rate"]) - 0.01))
        assert (row["best_epoch"], row["epochs"]) == ("5", "10")
    first = next(row for row in rows if row["trial"] == "0")
    assert (float(first["rate"]), first["widths"]) == (0.001, "[600]")  # the configuration's own values
    best = load_yaml(folder / "best.yaml")
    assert best["rate"] == pytest.approx(float(rows[0]["rate"]))
    assert best["name"] == rows[0]["folder"] and best["run"]["directory"] == "runs/sweep-base"
    said = capsys.readouterr().out
    assert "6 complete, 0 pruned, 0 failed" in said and "best.yaml --test" in said


def test_smallest_gini_is_best(sweep, tmp_path, capsys):
    for trials in ("4", "5"):  # The second call resumes.
        assert sweep("--trials", trials, "--set", "validation.select=gini@10") == 0
    rows = rows_of(tmp_path / "runs" / "sweep-base")
    values = [float(row["gini@10"]) for row in rows]
    assert values == sorted(values) and len(set(values)) > 1
    for row in rows:
        assert float(row["gini@10"]) == pytest.approx(0.5 + abs(float(row["rate"]) - 0.01))
        assert row["best_epoch"] == "5"
    assert load_yaml(tmp_path / "runs" / "sweep-base" / "best.yaml")["name"] == rows[0]["folder"]
    assert f"best: trial {rows[0]['trial']}, gini@10 {values[0]:.4f}" in capsys.readouterr().out
    optuna = pytest.importorskip("optuna")  # The search also needs the direction.
    study = optuna.load_study(study_name="sweep-base", storage=f"sqlite:///{tmp_path}/runs/sweep-base/sweep.db")
    assert study.best_value == pytest.approx(values[0])


def test_same_command_resumes_and_does_not_repeat_values(sweep, tmp_path):
    for trials in ("2", "2", "4"):
        assert sweep("--trials", trials) == 0
    rows = rows_of(tmp_path / "runs" / "sweep-base")
    assert len({row["rate"] for row in rows}) == 4
    assert sorted(int(row["trial"]) for row in rows) == list(range(4))


def test_other_search_in_the_same_folder_is_an_error(sweep, tmp_path, capsys):
    assert sweep("--trials", "1") == 0
    (tmp_path / "s.yaml").write_text("rate: {range: [1e-4, 1e-2], log: true}\n")
    assert sweep("--trials", "2") == 2
    assert "contains a sweep with another search" in capsys.readouterr().err
    assert sweep("--trials", "1", "--output", "other") == 0
    (tmp_path / "c.yaml").write_text("name: base\nmode: slow\n")
    assert sweep("--trials", "2", "--output", "other") == 2
    assert "another configuration" in capsys.readouterr().err


def test_failed_trials_are_recorded_and_do_not_end_the_sweep(sweep, tmp_path, capsys):
    assert sweep("--trials", "8", "--set", "mode=crash") == 0
    rows = rows_of(tmp_path / "runs" / "sweep-base")
    failed = [row for row in rows if row["state"] == "failed"]
    assert 1 <= len(failed) < 8 and len(rows) == 8
    assert {row["error"] for row in failed} == {"exit code 1: the loss is not finite"}
    assert all((row["state"] == "failed") == (float(row["rate"]) < 0.01) for row in rows)
    assert f"{len(failed)} failed" in capsys.readouterr().out
    (tmp_path / "s.yaml").write_text("rate: {range: [1e-4, 1e-3]}\n")
    assert sweep("--trials", "2", "--set", "mode=crash", "--output", "none") == 1  # no trial is complete
    assert not (tmp_path / "none" / "best.yaml").exists()


def test_prunes_only_if_asked(sweep, tmp_path):
    (tmp_path / "s.yaml").write_text("rate: {range: [1e-4, 1.0]}\n")
    assert sweep("--trials", "1", "--set", "mode=slow") == 0
    storage = f"sqlite:///{tmp_path}/runs/sweep-base/sweep.db"
    study = pytest.importorskip("optuna").load_study(study_name="sweep-base", storage=storage)
    for rate in (0.01, 0.011, 0.012, 0.013, 0.9):
        study.enqueue_trial({"rate": rate})
    assert sweep("--trials", "6", "--set", "mode=slow") == 0
    study.enqueue_trial({"rate": 0.95})
    assert sweep("--trials", "7", "--set", "mode=slow", "--prune", "--prune-after", "3") == 0
    rows = {int(row["trial"]): row for row in rows_of(tmp_path / "runs" / "sweep-base")}
    assert [rows[trial]["state"] for trial in range(7)] == ["complete"] * 6 + ["pruned"]
    assert rows[5]["epochs"] == "10" and 3 <= int(rows[6]["epochs"]) < 10


def test_no_trial_starts_after_the_timeout(sweep, tmp_path):
    assert sweep("--trials", "1000", "--timeout", "0.5s") == 0
    assert 1 <= len(rows_of(tmp_path / "runs" / "sweep-base")) < 1000


@pytest.mark.parametrize("code", [signal.SIGTERM, signal.SIGKILL])
def test_stopped_or_killed_sweep_stops_its_trial_and_continues_it(sweep, tmp_path, wait_for, code):
    if code == signal.SIGKILL and shutil.which("setpriv") is None:
        pytest.skip("setpriv of util-linux is not installed")
    command = [sys.executable, "-m", "vaecf", "sweep", "c.yaml", "--search", "s.yaml", "--program", "./vaecf_dist"]
    command += ["--trials", "2", "--set", "mode=wait"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    began = tmp_path / "runs" / "sweep-base" / "trial-0000" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (began.exists() and began.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    trial = child_of(process)
    process.send_signal(code)
    _, said = process.communicate(timeout=60)
    if code == signal.SIGTERM:
        assert process.returncode == 75 and "the same command resumes" in said
    try:
        wait_for(lambda: has_ended(trial))
    finally:
        if not has_ended(trial):
            os.killpg(trial, signal.SIGKILL)
    # The second call continues in the folder of the interrupted trial, which does not count.
    assert sweep("--trials", "1", "--set", "mode=wait") == 0
    rows = rows_of(tmp_path / "runs" / "sweep-base")
    assert [row["folder"] for row in rows] == ["trial-0000"]
    assert float(rows[0]["rate"]) == 0.001


def test_lock_of_another_sweep_or_a_link_in_its_place_is_an_error(sweep, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    lock = tmp_path / "out" / "lock"
    with open(lock, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert sweep("--trials", "1", "--output", "out") == 3
    assert "another sweep is at work" in capsys.readouterr().err
    (tmp_path / "mine").write_text("mine")
    lock.unlink()
    lock.symlink_to(tmp_path / "mine")
    assert sweep("--trials", "1", "--output", "out") == 2
    assert "out/lock: cannot be opened" in capsys.readouterr().err
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials", "0"], "--trials: must be at least 1"),
        (["--timeout", "soon"], "--timeout: must be"),
        (["--set", "rate"], "must be KEY=VALUE"),
        (["--set", "rate=0.1"], "this key is searched"),
        (["--set", "name=y"], "name: is set by the sweep"),
        (["--set", "unknown=1"], "'unknown'"),
        (["--set", "validation.select=last"], "must be a metric"),
        (["--search", "missing.yaml"], "cannot be read"),
        (["--ranks", "2", "--mpirun", "no-such-launcher"], "not in PATH"),
        (["--program", "no-such-program"], "does not exist"),
    ],
)
def test_wrong_usage_is_an_error_with_exit_code_2(sweep, capsys, arguments, message):
    assert sweep(*arguments) == 2
    assert message in capsys.readouterr().err


def test_value_that_the_program_does_not_accept_is_an_error_before_the_first_trial(sweep, tmp_path, capsys):
    (tmp_path / "s.yaml").write_text("rate: {range: [0.1, 2]}\n")
    assert sweep("--trials", "1") == 2
    assert "s.yaml: rate must be at most 1" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("entry", "parameter"),
    [
        ("{range: [64, 400], log: true}", Parameter("k", low=64, high=400, integer=True, log=True)),
        ("{range: [3e-4, 5e-3], log: true}", Parameter("k", low=3e-4, high=5e-3, log=True)),
        ("{range: [0, 1.0], step: 0.25}", Parameter("k", low=0, high=1.0, step=0.25)),
        ("{choices: [on, off, [600, 200], 0.5, null]}", Parameter("k", choices=("on", "off", "[600, 200]", 0.5, "null"))),
    ],
)
def test_search_file_is_read(tmp_path, entry, parameter):
    (tmp_path / "s.yaml").write_text(f"k: {entry}\n")
    assert read_search(tmp_path / "s.yaml") == [parameter]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1, 2]",
        "k: 5",
        "k: {range: [1, 2], choices: [1]}",
        "k: {range: [2, 1]}",
        "k: {range: [1]}",
        "k: {range: [a, b]}",
        "k: {range: [0, 1], log: true}",
        "k: {range: [1, 2], log: maybe}",
        "k: {range: [1, 5], step: 0.5}",
        "k: {range: [1.0, 5], step: -1}",
        "k: {choices: []}",
        "k: {choices: [1], log: true}",
        "k: {range: [1, 2], lgo: true}",
        "k: [",
    ],
)
def test_search_file_that_is_not_valid_throws(tmp_path, text):
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(InputError, match="s.yaml"):
        read_search(tmp_path / "s.yaml")


def test_values_of_a_configuration_are_compared_with_the_search():
    rate = Parameter("k", low=0.1, high=0.5, step=0.1)
    assert rate.in_range(0.3) == 0.3
    assert rate.in_range(0.35) is None and rate.in_range(0.6) is None and rate.in_range("auto") is None
    assert rate.in_range([0.3]) == 0.3 and rate.in_range([0.3, 0.4]) is None and rate.in_range([0.35]) is None
    assert rate.holds_all([0.3, 0.4]) and not rate.holds_all([0.3, 0.35]) and not rate.holds_all([0.3])
    assert not rate.holds_all([0.1, True]) and not Parameter("k", choices=(0.3, 0.4)).holds_all([0.3, 0.4])
    assert rate.in_range(None) is None and rate.in_range(True) is None


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("2m", 120), ("1.5h", 5400)])
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


def test_validations_of_models_with_and_without_epochs():
    events = [{"event": "start"}, {"event": "validation", "epoch": 3, "metrics": {"m": {"value": 0.5}}}]
    assert validations([*events, {"event": "validation", "epoch": 4}], "m") == [(3, 0.5)]
    solved = [{"event": "solve", "solution": n, "metrics": {"m": {"value": n / 10}}} for n in (1, 2)]
    assert validations(solved, "m") == [(1, 0.1), (2, 0.2)]


def test_yaml_is_read_as_by_vaecf_dist():
    read = parse_yaml("{a: 3e-4, b: off, c: true, d: 010, e: 1_000, f: -2, g: [1., .5], h: 1:30, i: null}")
    assert read == {"a": 3e-4, "b": "off", "c": True, "d": 8, "e": "1_000", "f": -2, "g": [1.0, 0.5], "h": "1:30", "i": None}
    assert flatten({"a": {"b": 1, "c": {"d": [2]}}}) == {"a.b": 1, "a.c.d": [2]}


def test_sweep_of_the_program(tmp_path, monkeypatch, capsys, program):
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    sizes = ["--users", "300", "--items", "60", "--interactions-per-user", "10", "--quiet"]
    subprocess.run([program, "synthesize", "d.h5", *sizes], check=True)
    Path("c.yaml").write_text("{name: c, data: {file: d.h5}, model: {hidden: [16], latent: 8}, train: {epochs: 2, batch_size: 40}}\n")
    Path("s.yaml").write_text("model.hidden: {choices: [[16], [16, 8]]}\ntrain.optimizer.learning_rate: {range: [1e-3, 1e-1], log: true}\n")
    command = ["sweep", "c.yaml", "--search", "s.yaml", "--program", program, "--trials", "2"]
    assert main([*command, "--ranks", "2"]) == 0
    rows = rows_of(tmp_path / "runs" / "sweep-c")
    assert [row["state"] for row in rows] == ["complete", "complete"]
    tested = subprocess.run([program, "runs/sweep-c/best.yaml", "--test"], capture_output=True, text=True, check=True)
    assert "ndcg@100" in tested.stdout
    Path("s.yaml").write_text("model.latnet: {range: [4, 8]}\n")
    assert main([*command, "--output", "other"]) == 2
    capsys.readouterr()
    Path("s.yaml").write_text("model.ease.l2: {choices: [[20, 50]]}\n")
    assert main([*command, "--output", "solved", "--set", "model.type=ease"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"ndcg@100 0\.\d{4}, solution [12] of 2\b", said) and ", epoch " not in said


DOTTED = """
name: c
data.file: d.h5
model: {type: ease, ease.search: standard, item_knn.neighbors: 7}
model.ease.user_power: [0.5]
model.ease.relax: 0
evaluation: {metrics: [ndcg@20, recall@10]}
validation: {select: ndcg@20}
run: {checkpoint_every.steps: 5}
"""

SEARCH = """
model.ease.l2: {choices: [7, auto]}
model.ease.user_power: {choices: [0.25, 0.5]}
model.ease.relax: {choices: [[0.25], [0.00]]}
model.ease.kept_weight: {range: [0.0, 1.0]}
evaluation.metrics: {choices: [[ndcg@20], '[ndcg@20,recall@10]']}
"""


def test_configuration_may_have_dotted_keys_and_lists_in_any_notation(tmp_path, monkeypatch, program):
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    sizes = ["--users", "120", "--items", "20", "--interactions-per-user", "8", "--quiet"]
    subprocess.run([program, "synthesize", "d.h5", *sizes], check=True)
    Path("c.yaml").write_text(DOTTED)
    Path("s.yaml").write_text(SEARCH)
    command = ["sweep", "c.yaml", "--search", "s.yaml", "--program", program, "--trials", "1", "--output", "out"]
    assert main([*command, "--set", "model.ease.dropout=0.25"]) == 0
    (row,) = rows_of(tmp_path / "out")
    # The first trial is the configuration itself.
    values = [row[key] for key in parse_yaml(SEARCH)]
    assert row["state"] == "complete"
    assert values == ["auto", "0.5", "[0.0]", "0.0", "[ndcg@20,recall@10]"]
    subprocess.run([program, "out/best.yaml", "--test", "-q"], check=True, capture_output=True)

    def resolved(*arguments):
        printed = subprocess.run([program, *arguments, "--print-config"], check=True, capture_output=True, text=True)
        return flatten(parse_yaml(printed.stdout))

    own = ["--set", "model.ease.dropout=0.25", "--set", "run.checkpoint_every=never", "--set", "run.directory=out"]
    assert resolved("out/best.yaml") == resolved("c.yaml", *own, "--set", "name=trial-0000")
    assert len(flatten(load_yaml(tmp_path / "out" / "best.yaml"))) < 20  # not every key


@pytest.mark.parametrize("interrupted", [False, True])
def test_first_trial_has_the_lists_of_the_configuration(tmp_path, monkeypatch, program, interrupted):
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    sizes = ["--users", "120", "--items", "20", "--interactions-per-user", "8", "--quiet"]
    subprocess.run([program, "synthesize", "d.h5", *sizes], check=True)
    Path("c.yaml").write_text(
        "name: c\ndata.file: d.h5\nmodel: {type: ease, ease.l2: [50, 200], ease.dropout: [0.1, 0.2]}\n"
        "evaluation: {metrics: [ndcg@20]}\nvalidation: {select: ndcg@20}\n"
    )
    Path("s.yaml").write_text(
        "model.ease.l2: {range: [1, 1000], log: true}\nmodel.ease.dropout: {choices: [0.1, [0.1, 0.2]]}\n"
    )
    command = ["sweep", "c.yaml", "--search", "s.yaml", "--program", program, "--output", "out"]
    if interrupted:  # It ended with the first trial at work.
        from vaecf.commands import sweep  # pylint: disable=import-outside-toplevel

        with monkeypatch.context() as patch:
            patch.setattr(sweep, "execute", lambda *_: (_ for _ in ()).throw(sweep.Stopped))
            assert main([*command, "--trials", "1"]) == 75
    assert main([*command, "--trials", "1"]) == 0
    (row,) = rows_of(tmp_path / "out")
    assert (row["folder"], row["model.ease.l2"], row["model.ease.dropout"]) == (
        "trial-0000",
        "[50.0, 200.0]",
        "[0.1, 0.2]",
    )
    run = flatten(load_yaml(tmp_path / "out" / "trial-0000" / "config.yaml"))
    best = flatten(load_yaml(tmp_path / "out" / "best.yaml"))
    for config in (run, best):
        assert (config["model.ease.l2"], config["model.ease.dropout"]) == ([50, 200], [0.1, 0.2])
    # Other trials have numbers of the range; the page shows both.
    assert main([*command, "--trials", "3"]) == 0
    rows = {row["trial"]: row["model.ease.l2"] for row in rows_of(tmp_path / "out")}
    assert sum(text == "[50.0, 200.0]" for text in rows.values()) == 1 and len(rows) == 3
    assert all(1 <= float(text) <= 1000 for text in rows.values() if text != "[50.0, 200.0]")
    assert main(["report", "out", "--output", "page.html"]) == 0
    assert "A list of values in a range is not drawn" in Path("page.html").read_text()
