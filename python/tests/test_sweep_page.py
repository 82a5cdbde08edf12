"""`vaecf report` on the folder of a sweep."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Page

import vaecf
from vaecf.cli import main
from vaecf.search_space import Parameter
from vaecf.sweep_page import importance, positions

SEARCH = """
model.latent: {range: [4, 64], log: true}
model.dropout: {range: [0.2, 0.8]}
model.hidden: {choices: [[200], [600, 200]]}
train.batch_size: {choices: [25, 50, 100]}
"""


def _sweep(folder: Path, trials: int) -> str:
    """Writes the files of a sweep whose metric grows with model.latent only; the last trial failed."""
    folder.mkdir()
    (folder / "search.yaml").write_text(SEARCH)
    lines = [
        "trial,state,ndcg@100,best_epoch,epochs,seconds,model.latent,model.dropout,model.hidden,train.batch_size,error,folder"
    ]
    for k in range(trials):
        hidden = ["[200]", '"[600, 200]"'][k % 2]
        rest = f"{64 - 60 * k // trials},{0.2 + k * 7 % 10 / 20},{hidden},{[25, 50, 100][k % 3]}"
        lines.append(f"{k},complete,{0.5 - k / 1000},3,5,1.5,{rest},,trial-{k:04d}")
    lines.append(f"{trials},failed,,,,0.1,4,0.5,[200],25,exit code 1,trial-x")
    (folder / "trials.csv").write_text("\n".join(lines) + "\n")
    return str(folder)


def test_page_of_a_sweep_has_the_trials_and_the_importance_of_keys(tmp_path: Path) -> None:
    folder = _sweep(tmp_path / "sweep", 40)
    assert main(["report", folder, "-o", str(tmp_path / "r.html"), "--plots", str(tmp_path / "plots")]) == 0
    text = (tmp_path / "r.html").read_text()
    page = Page(text)
    page.check_self_contained(text)
    assert page.headings == ["Sweep sweep", "Summary", "Trials", "Importance", "Results"]
    assert (
        "41 trials: 40 complete, 0 pruned, 1 failed. The best ndcg@100 on the validation users is 0.5000" in page.words
    )
    assert "Its model.latent, 64, is the largest that was searched; try larger values." in page.words
    assert "Its train.batch_size, 25, is the smallest" in page.words and "Its model.hidden" not in page.words
    assert len(page.svgs) == 1 and (tmp_path / "plots" / "parallel.svg").is_file()
    head, best, *_, failed = page.tables["trials"]
    assert head[:3] == ["trial", "state", "ndcg@100"] and head[-1] == "train.batch_size"
    assert best[:2] == ["0", "complete"] and best[6] == "64" and failed[:3] == ["40", "failed", ""]
    shares = {row[0]: float(row[1].removesuffix(" %")) for row in page.tables["importance"][1:]}
    assert next(iter(shares)) == "model.latent" and shares["model.latent"] > 90
    assert all(shares[key] < 20 for key in ("model.hidden", "train.batch_size"))
    assert vaecf.report(folder).html == text


@pytest.mark.parametrize("trials, shown", [(1, 2), (6, 7), (310, 300)])
def test_page_of_a_sweep_shows_at_most_300_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trials: int, shown: int
) -> None:
    monkeypatch.setattr("vaecf.charts.svg_text", lambda figure, chart: "<svg></svg>")
    page = Page(vaecf.report(_sweep(tmp_path / "sweep", trials)).html)
    assert len(page.tables["trials"]) == shown + 1
    assert ("The best 300 of 311 trials are shown" in page.words) == (trials > 300)
    assert ("importance" in page.tables) == (trials > 8)


def test_positions_follow_the_scale_of_a_parameter() -> None:
    assert positions(Parameter("a", low=1, high=100, log=True), ["1", "10", "100"]).tolist() == pytest.approx(
        [0, 0.5, 1]
    )
    assert positions(Parameter("a", low=1, high=5), ["2"]).tolist() == [0.25]
    assert positions(Parameter("a", choices=("x", True, 3)), ["3", "x", "True"]).tolist() == [1, 0, 0.5]


# Ranks 1 to 8 in two groups: total 42, within 2 * 5, epsilon squared 1 - (10 / 6) / (42 / 7) = 0.7222.
def test_importance_is_the_variance_between_groups() -> None:
    values, results = np.array([0.0] * 4 + [1.0] * 4), np.arange(8.0) ** 3
    assert importance(values, results, True) == pytest.approx(1 - (10 / 6) / (42 / 7))
    assert importance(np.array([0.0, 1.0] * 4), np.repeat(np.arange(4.0), 2), True) == 0
    assert importance(values, results * 0, True) == 0 and np.isnan(importance(values[:7], results[:7], True))


def test_wrong_sweeps_are_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _sweep(tmp_path / "sweep", 3)
    assert main(["report", folder, folder]) == 2
    assert "pass the folder of the sweep alone" in capsys.readouterr().err
    (tmp_path / "sweep" / "search.yaml").unlink()
    with pytest.raises(vaecf.InputError, match="search.yaml: is missing"):
        vaecf.report(folder)
    (tmp_path / "sweep" / "trials.csv").write_text("")
    with pytest.raises(vaecf.InputError, match="is not a table of `vaecf sweep`"):
        vaecf.report(folder)
