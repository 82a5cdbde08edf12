"""Reports on scaling against those of the former C++ implementation, and on constructed runs."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Page

from vaecf.cli import main
from vaecf.errors import InputError
from vaecf.scaling.model import Workload
from vaecf.scaling.report import make_report
from vaecf.scaling.runs import RunRecord, read_runs, record_of
from vaecf.scaling.text import to_csv, to_json, to_table

DATA = Path(__file__).parent / "data"
EVENTS = json.loads((DATA / "scaling_events.json").read_text())
REPORTS = json.loads((DATA / "scaling_reports.json").read_text())


def write_events(folder, events):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def rounded(value):
    """Returns a JSON value with numbers of nine digits."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    return pytest.approx(value, rel=1e-8, abs=1e-12) if isinstance(value, float) else value


@pytest.mark.parametrize("stored", REPORTS, ids=lambda stored: " ".join([stored["events"], *stored["arguments"]]))
def test_reports_equal_those_of_the_former_implementation(tmp_path, monkeypatch, capsys, stored):
    write_events(tmp_path / "run", EVENTS[stored["events"]])
    without_page = stored is not REPORTS[0]
    if without_page:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.delitem(sys.modules, "vaecf.scaling.page", raising=False)
    assert main(["scaling", str(tmp_path), *stored["arguments"]]) == 0
    said = capsys.readouterr()
    assert ("python3-matplotlib" in said.err) == without_page
    assert (tmp_path / "scaling.html").exists() != without_page
    report = json.loads((tmp_path / "scaling.json").read_text())
    flags = [point.pop("flags") for point in report["strong"] + report["weak"]]  # not in the former implementation
    assert report == rounded(stored["json"])
    if "csv" in stored:
        lines = (tmp_path / "scaling.csv").read_text().splitlines()
        assert "".join(line.rpartition(",")[0] + "\n" for line in lines) == stored["csv"]
        assert [line.rpartition(",")[2] for line in lines] == ["flags", *("; ".join(flag) for flag in flags)]
        assert said.out.startswith(stored["table"])


def ideal_run(ranks, batch, item_slices=1):
    """Returns a run on a machine that the model describes exactly."""
    latency, bandwidth = 5e-6, 2e9
    moved = 2.0 * (ranks - 1) / ranks
    update = 2.4e-3 if ranks == 1 else 3.2e-3
    wire = moved * 4e6
    exchange = 2.0 * (ranks - 1) * latency + wire / bandwidth if ranks > 1 else 0.0
    if item_slices > 1:  # 900,000 of the 1,000,000 weights are tables of 9,000 items next to layers of 60 and 39.
        wire = 8.0 * 99 * batch * (item_slices - 1) / item_slices + 8.0 * batch * (item_slices - 1) + moved * 4e5
        exchange = 5 * (ranks - 1) * latency + 2.0 * (ranks - 1) * latency + wire / bandwidth
        update = update * (0.9 / item_slices + 0.1)
    seconds = 1e-3 + 20e-6 * batch / ranks + update + exchange
    return RunRecord(
        version="1",
        machine="a machine",
        host="node",
        device="cpu",
        precision="fp32",
        ranks=ranks,
        ranks_per_host=ranks,
        item_slices=item_slices,
        cores=8,
        usable_cores=8,
        bound_cores=8,
        batch_size=batch,
        users_per_step=batch,
        bucket_bytes=1e9,
        workload=Workload(1e6, 0.5e6, table_parameters=0.9e6, table_widths=99.0),
        single_rank_update_bytes=24e6,
        memory_rate=10e9 * ranks,
        gemm_rate=50e9 * ranks,
        all_reduce=[
            (size, 2.0 * (ranks - 1) * latency + moved * size / bandwidth)
            for size in (4.0, 4096.0, 1048576.0, 16777216.0)
            if ranks > 1
        ],
        wire_bytes=wire,
        step_seconds=seconds,
        users_per_second=batch / seconds,
        phase_seconds={"forward": 1e-3, "all-reduce": exchange, "optimizer": update},
    )


def ideal_runs():
    """Returns three repeats of strong and weak scaling on 1, 2 and 4 ranks."""
    return [run for _ in range(3) for n in (1, 2, 4) for run in (ideal_run(n, 400.0), ideal_run(n, 100.0 * n))]


def test_predicts_item_slices():
    report = make_report(ideal_runs() + [ideal_run(4, 400.0, item_slices=4) for _ in range(3)])
    point = next(point for point in report.strong if point.variant == "items fp32")
    assert point.prediction_error == pytest.approx(0.0, abs=1e-4)
    # The break-even point is computed for the same machine as predictions: both take equally long there.
    users = report.slices_win.users
    assert report.slices_win.variant == "replicated fp32"
    data, items = ideal_run(4, users), ideal_run(4, users, item_slices=4)
    assert data.users_per_second == pytest.approx(items.users_per_second, rel=2e-3)
    assert f"below about {users:.0f} users per step over all ranks" in to_table(report)
    assert json.loads(to_json(report))["model"]["users_below_which_slices_win"] == users
    assert replace(ideal_run(4, 400.0, item_slices=4), item_slices=2).variant == "2 item slices replicated fp32"


def test_each_variant_has_its_own_point():
    other = replace(ideal_run(2, 400.0), optimizer="sharded", wire="bf16", overlap="on")
    served = replace(other, servers=1, server_updates="synchronous")
    report = make_report([*ideal_runs(), other, served], 400, 0)
    names = ["", "1 server synchronous bf16", "replicated fp32", "sharded bf16 overlap", "replicated fp32"]
    assert [point.variant for point in report.strong] == names and not report.weak
    assert report.strong[1].predicted is None  # The model supports rings only.
    assert any("fewer than three repeats" in warning for warning in report.warnings)


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"threads": 4}, "4 ranks of 4 threads share 8 of the 8 cores of node"),
        ({"usable_cores": 2}, "4 ranks of 1 threads share 2 of the 8 cores of node"),
        ({"threads": 2, "bound_cores": 1}, "the launcher bound each to 1 cores, fewer than its 2 threads"),
        ({"device": "cuda", "ranks_per_gpu": 2}, "2 of 4 ranks share one GPU"),
    ],
)
def test_warns_of_shared_cores_and_devices(change, warning):
    report = make_report([replace(run, **change) for run in ideal_runs()])
    assert any(warning in text for text in report.warnings)


def test_warns_of_different_machines():
    runs = [replace(run, machine="another one") if run.ranks == 4 else run for run in ideal_runs()]
    assert make_report(runs).warnings == ["runs are of different machines: a machine; and: another one"]


def test_predicts_nothing_from_unusable_measurements():
    runs = ideal_runs()
    for run in runs:
        if run.ranks == 1 and run.batch_size == 400:
            run.users_per_second = 1e9
    report = make_report(runs)
    assert all(point.predicted is None for point in report.strong)
    assert report.break_even is None and report.slices_win is None
    assert any("nothing is predicted" in warning for warning in report.warnings)
    assert "ms per user" not in to_table(report)
    runs = ideal_runs()
    for run in runs:
        run.all_reduce = [(size, 80e-6) for size, _ in run.all_reduce]
    report = make_report(runs)
    assert report.strong[0].predicted and report.strong[-1].predicted is None
    assert any("cannot be separated from the all-reduces of 2 ranks" in warning for warning in report.warnings)


def test_break_even_uses_the_fastest_variant_in_any_order_of_runs():
    fast = replace(ideal_run(4, 400.0), wire="bf16")
    fast.users_per_second *= 2.0
    served = replace(ideal_run(4, 400.0), servers=1)
    served.users_per_second *= 3.0
    runs = [served, *ideal_runs(), fast]
    found = make_report(runs).break_even
    assert (found.variant, found.ranks) == ("replicated bf16", 4)
    assert make_report(runs[::-1]).break_even.users == found.users


@pytest.mark.parametrize("change", [{"precision": "bf16"}, {"bucket_bytes": 5e8}, {"version": "2"}, {"threads": 2}])
def test_runs_with_different_settings_throw(change):
    runs = ideal_runs()
    with pytest.raises(InputError, match="cannot be compared"):
        make_report([*runs[:-1], replace(runs[-1], **change)])


def test_numbers_of_ranks_may_have_buckets_of_other_sizes():
    runs = [replace(run, bucket_bytes=1e9 * run.ranks) for run in ideal_runs()]
    assert len(make_report(runs).strong) == 3


def test_missing_single_rank_runs_throw():
    with pytest.raises(InputError, match="no single-rank run, which"):
        make_report([run for run in ideal_runs() if run.ranks > 1], 400, 100)
    with pytest.raises(InputError, match="no single-rank run with 123 users"):
        make_report(ideal_runs(), 123, 0)


def test_page_contains_plots_and_every_point_and_loads_nothing(tmp_path):
    pytest.importorskip("matplotlib")
    from vaecf.scaling.page import write_page  # pylint: disable=import-outside-toplevel

    report = make_report(ideal_runs() + [ideal_run(4, 400.0, item_slices=4)])
    report.machine = "</script> & co"
    write_page(report, tmp_path)
    text = (tmp_path / "scaling.html").read_text()
    page = Page(text)
    assert page.tags.count("svg") == 8 and page.tags.count("tr") == 2 + 4 + 4 and "script" not in page.tags
    assert page.tags.count("h2") == 3 and "</script> & co" in page.words
    assert len(page.ids) == len(set(page.ids)) and "@import" not in text and "url(http" not in text
    # Every link is to an element of the page.
    assert page.links and all(link[0] == "#" and link[1:] in page.ids for link in page.links)
    for label in ("variant and ranks", "items fp32, 4", "users/s", "% of ideal", "ms per step", "ideal", "predicted", "items fp32", "GB/s"):
        assert label in page.words, label
    assert 0 < len(text) < 400_000
    names = sorted(file.name for file in tmp_path.glob("*.svg"))
    assert names == sorted(f"scaling-{m}-{n}.svg" for m in ("strong", "weak") for n in ("users", "efficiency", "phases", "sent"))
    # The same report gives the same files.
    write_page(report, tmp_path)
    assert (tmp_path / "scaling.html").read_text() == text


def test_unreliable_points_are_flagged():
    runs = ideal_runs()
    assert not any(point.flags for point in make_report(runs).strong)
    slow = next(run for run in runs if run.ranks == 4 and run.batch_size == 400.0)
    others = [run for run in runs if run.ranks < 4]
    # One of three runs is slower, so the median is as predicted.
    report = make_report([*others, slow, slow, replace(slow, users_per_second=slow.users_per_second / 1.6)])
    flags = {point.ranks: point.flags for point in report.strong}
    assert flags[4] == ["runs differ 1.6 times"] and not flags[1] and not flags[2]
    assert [w for w in report.warnings if "more than 1.5 times" in w] and not [w for w in report.warnings if "2 times" in w]
    # All runs of a point are slower than predicted.
    report = make_report([*others, replace(slow, users_per_second=slow.users_per_second / 2.5)])
    flags = {point.ranks: point.flags for point in report.strong}
    assert flags[4] == ["prediction is off 2.5 times"]
    assert any(w.startswith("the predictions of 1 point are off by more than 2 times") for w in report.warnings)
    assert "prediction is off 2.5 times!\n" in to_table(report)
    assert ",prediction is off 2.5 times\n" in to_csv(report)


def test_valid_benchmark_events_are_read(tmp_path):
    event = {"event": "benchmark", "ranks": 2, "batch_size": 500, "users_per_second": 1000.5, "step_seconds": 0.5}
    event |= {"phase_seconds": {"all_reduce": 7.5e-3}, "optimizer_state": "sharded", "wire": "bf16"}
    event |= {"overlap": True, "gemm_flop_per_second": 100e9}
    event |= {"all_reduce": [{"bytes": 4, "seconds": 1e-6}, {"bytes": 400, "seconds": 2e-6}]}
    write_events(tmp_path / "b", [{"event": "start", "ranks": 2}, event])
    with open(tmp_path / "b" / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"event":"benchmark","ranks":2,"batch_si')
    write_events(tmp_path / "a", [{**event, "ranks": 1, "users_per_second": 600}, [1, 2], {**event, "users_per_second": 1e18}])
    one, two = read_runs(tmp_path)
    assert (one.ranks, one.variant, two.variant) == (1, "", "sharded bf16 overlap")
    assert (two.users_per_second, two.gemm_rate, two.all_reduce[1]) == (1000.5, 100e9, (400.0, 2e-6))
    assert two.phase_seconds["all-reduce"] == 7.5e-3


def test_items_of_the_tables_are_read():
    work = record_of({"parameters": 1000, "items": 20, "item_widths": 9, "item_slices": 4, "ranks": 4}).workload
    assert (work.table_parameters, work.table_widths) == (200.0, 9.0)


def test_missing_benchmarks_are_an_error(tmp_path, capsys):
    write_events(tmp_path, [{"event": "start"}])
    assert main(["scaling", str(tmp_path)]) == 2
    assert "contains an event `benchmark`" in capsys.readouterr().err
    assert main(["scaling", str(tmp_path / "nowhere")]) == 2
    assert "not a folder" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--batch", "-1"], ["--predict", "m.yaml", "--ranks", "2", "--batch", "5"]])
def test_wrong_usage_is_an_error(tmp_path, capsys, arguments):
    assert main(["scaling", str(tmp_path), *arguments]) == 2
    assert "--batch: " in capsys.readouterr().err


def test_prediction_of_a_configuration(tmp_path, capsys, program):
    (tmp_path / "c.yaml").write_text("{data: {file: none.h5}, model: {hidden: [16], latent: 8}, train: {batch_size: 40}}\n")
    machine = Path(__file__).parents[2] / "configs" / "machines" / "dgx-h100.yaml"
    command = ["scaling", str(tmp_path / "c.yaml"), "--predict", str(machine), "--program", program, "--ranks"]
    sizes = ["--items", "5000", "--interactions-per-user", "40"]
    assert main([*command, "8,64", *sizes]) == 0
    said = capsys.readouterr().out
    assert said.startswith("predicted, not measured: DGX H100") and "64 weak        2560" in said
    assert main([*command, "512", *sizes]) == 0
    assert "data.virtual_shards of at least 512" in capsys.readouterr().out
    for more, message in (
        ([], "none.h5 does not exist"),
        (["--items", "5", "--interactions-per-user", "6"], "exceeds the number of items"),
        ([*sizes, "--set", "model.type=recvae"], "recvae cannot be predicted"),
        ([*sizes, "--set", "distributed.strategy=parameter_server"], "only allreduce"),
        ([*sizes, "--set", "train.nothing=1"], "train.nothing is not a key"),
    ):
        assert main([*command, "8", *more]) == 2
        assert message in capsys.readouterr().err
