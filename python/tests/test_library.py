"""vaecf.Run, vaecf.Dataset and vaecf.Model against the program that wrote the files."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import MODELS, Workspace, make_new_items
from reference import scorer_of

import vaecf
from vaecf import page
from vaecf.commands.compare import PerUser
from vaecf.dataset import item_matrix
from vaecf.runs_page import runs_page


def _written(workspace: Workspace, name: str, threads: int, *options: str) -> dict[str, np.ndarray]:
    """Returns the lists of all test users that vaecf_dist recommend writes."""
    file = workspace.folder / f"{name}.lists.h5"
    settings = ["--set", f"backend.threads={threads}", "--set", "train.precision=fp32"]
    workspace.call("recommend", f"runs/{name}/config.yaml", "--split", "test", "--output", str(file), "-q", *settings, *options)
    with h5py.File(file) as written:
        found = {key: written[key][:] for key in ("item_index", "score", "because_index", "contributions") if key in written}
    file.unlink()
    return found


@pytest.mark.parametrize("name", MODELS)
def test_lists_and_reasons_have_the_bits_of_the_program(workspace: Workspace, name: str) -> None:
    run = vaecf.Run(workspace.folder / "runs" / name)
    test, model = run.dataset().test, run.model()
    features = test.user_features if model.n_user_features else None
    assert (features is not None) == name.endswith("_features")
    mine = model.recommend(test.fold_in, k=120, user_features=features, users=test.user_id, reasons=3)
    left = 120 - np.diff(test.fold_in.indptr)
    assert mine["user"].tolist() == np.repeat(test.user_id, left).tolist()
    present = np.arange(120) < left[:, None]
    for threads in (1, 3):
        theirs = _written(workspace, name, threads, "--top", "120", "--reasons", "3")
        assert mine["item"].tolist() == model.item_id[theirs["item_index"][present]].tolist()
        assert mine["score"].to_numpy().tobytes() == theirs["score"][present].tobytes()
        for n in range(3):
            because, contributions = theirs["because_index"][present][:, n], theirs["contributions"][present][:, n]
            ids = [None if column < 0 else model.item_id[column] for column in because]
            assert mine[f"because_{n + 1}"].astype(object).where(mine[f"because_{n + 1}"].notna(), None).tolist() == ids
            assert mine[f"contribution_{n + 1}"].to_numpy().tobytes() == contributions.tobytes()
    # By the formulas, the order of the scores, and one user at a time.
    scores = model.score(test.fold_in, features)
    truth = scorer_of(model).score(sp.csr_matrix(test.fold_in), features)
    np.testing.assert_allclose(scores, truth, rtol=1e-5, atol=1e-5)
    assert np.ptp(truth) > 1e-3
    row = np.repeat(np.arange(len(left)), left)
    columns = np.searchsorted(model.item_id, mine["item"])
    assert (scores[row, columns] == mine["score"]).all()
    alone = [model.score(test.fold_in[u], None if features is None else features[u])[0] for u in range(5)]
    if model.type in ("ease", "item_knn"):
        assert (np.array(alone) == scores[:5]).all()
    np.testing.assert_allclose(alone, scores[:5], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_vectors_give_the_scores(workspace: Workspace, name: str) -> None:
    run = vaecf.Run(workspace.folder / "runs" / name)
    test, model = run.dataset().test, run.model()
    features = test.user_features if model.n_user_features else None
    if model.type in ("ease", "item_knn"):
        for call in (model.item_vectors, lambda: model.user_vectors(test.fold_in)):
            with pytest.raises(vaecf.InputError, match="no vectors of items and users; .* give the term alone"):
                call()
        return
    items, users = model.item_vectors(), model.user_vectors(test.fold_in, features)
    assert len(items) == 120 and items.shape[1] == users.shape[1]
    products = users.astype(np.float64) @ items.T
    if name.startswith("autoencoder") and "multinomial" not in name:
        products = 1 / (1 + np.exp(-products))
    np.testing.assert_allclose(products, model.score(test.fold_in, features), rtol=1e-5, atol=1e-5)
    best = model.recommend(test.fold_in, k=10, user_features=features, keep_seen=True)["item"].to_numpy().reshape(-1, 10)
    assert (model.item_id[np.argsort(-products, axis=1, kind="stable")[:, :10]] == best).mean() > 0.995  # but for ties
    assert model.user_vectors(np.zeros((0, 120))).shape == (0, items.shape[1])


def test_the_lines_of_the_page_find_the_lists(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page_of = (Path(__file__).parents[2] / "docs" / "RECOMMEND.md").read_text()
    code = page_of.partition("## Vectors")[2].partition("```python\n")[2].partition("```")[0]
    path = workspace.folder / "runs" / "elsa" / "checkpoints" / "best.h5"
    model = vaecf.Model(path)
    ids = [str(item) for item in model.item_id[[3, 40, 7, 80]]]
    for old, new in zip(("runs/elsa-ml1m/checkpoints/best.h5", '"1"', '"260"', '"1210"', '"858"'), (path, *ids), strict=True):
        code = code.replace(old, f'"{new}"' if old.startswith('"') else str(new))
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(code, found)  # pylint: disable=exec-used
    best = model.recommend([ids[:3], ids[3:]], k=10, keep_seen=True)["item"].to_numpy().reshape(2, 10)
    assert found["items"].tolist() == best.tolist()


@pytest.mark.parametrize("name", MODELS)
def test_reasons_are_contributions_by_definition(workspace: Workspace, name: str) -> None:
    run = vaecf.Run(workspace.folder / "runs" / name)
    data, model = run.dataset(), run.model()
    count = 4
    written = _written(workspace, name, 1, "--top", "5", "--reasons", str(count))
    items, scores, because, contributions = (written[key] for key in ("item_index", "score", "because_index", "contributions"))
    assert because.shape == contributions.shape == (60, 5, count)
    assert because.dtype == np.int32 and contributions.dtype == np.float32
    rows, features = sp.csr_matrix(data.test.fold_in), data.test.user_features if model.n_user_features else None
    scorer = scorer_of(model)

    def score(histories: sp.csr_matrix, user: int) -> np.ndarray:
        wide = None if features is None else sp.vstack([features[user]] * histories.shape[0], format="csr")
        return np.asarray(scorer.score(histories, wide))

    for user in range(60):
        history = rows[user].indices
        # By definition: scores without one item, which in a linear model are the other items' contributions.
        without = np.repeat(rows[user].toarray(), len(history), axis=0)
        without[np.arange(len(history)), history] = 0
        if model.type in ("ease", "item_knn", "elsa"):
            alone = sp.csr_matrix((np.ones(len(history)), history, np.arange(len(history) + 1)), (len(history), 120))
            values = rows[user].data
            truth = score(alone, user) * values[:, None] / (np.linalg.norm(values) if model.type == "elsa" else 1.0)
            np.testing.assert_allclose(truth.sum(axis=0)[items[user]], scores[user], rtol=1e-5, atol=1e-6)
        else:
            truth = score(rows[user], user) - score(sp.csr_matrix(without), user)
        for place, item in enumerate(items[user]):
            of_item = truth[:, item]
            left = min(count, len(history))
            assert set(because[user, place, :left]) <= set(history) and (because[user, place, left:] == -1).all()
            chosen = of_item[np.searchsorted(history, because[user, place, :left])]
            np.testing.assert_allclose(contributions[user, place, :left], chosen, rtol=1e-5, atol=2e-5)
            np.testing.assert_allclose(chosen, np.sort(of_item)[::-1][:left], rtol=1e-5, atol=2e-5)


def test_reasons_are_missing_where_there_are_none(workspace: Workspace) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "elsa").model()
    rows = np.zeros((3, 120))
    rows[1, [4, 9]], rows[2, 7] = 1, 1
    table = model.recommend(rows, k=2, reasons=3, keep_seen=True)
    assert table["because_1"].isna().tolist() == [True, True, False, False, False, False]
    assert table["because_2"].isna().tolist() == [True, True, False, False, True, True]
    assert table["because_3"].isna().all() and table["contribution_3"].isna().all()
    # The own item contributes, too.
    np.testing.assert_allclose(table["contribution_1"][4:], table["score"][4:], rtol=1e-5)
    np.testing.assert_allclose((table["contribution_1"] + table["contribution_2"])[2:4], table["score"][2:4], rtol=1e-5)
    assert "because_1" not in model.recommend(rows) and model.recommend(rows[:0], reasons=1).empty


def test_run_contains_the_curves_and_the_configuration(workspace: Workspace) -> None:
    run = vaecf.Run(workspace.folder / "runs" / "mult_vae")
    assert run.name == "mult_vae"
    assert run.config["model.hidden"] == [24, 16]
    assert run.epochs.index.tolist() == run.validation.index.tolist() == [1, 2, 3]
    assert {"loss", "nll", "kl", "beta", "users_per_second"} <= set(run.epochs.columns)
    assert run.validation.loc[run.last("end")["best_epoch"], "ndcg@100"] == run.last("end")["best_metric"]
    assert run.test["ndcg@100"].tolist() == [run.last("test")["metrics"]["ndcg@100"]["value"]]
    assert run.baselines.index.tolist() == ["popularity", "item_knn"] and run.baselines["ndcg@100_se"].gt(0).all()
    assert run.groups.index.get_level_values("group").unique().tolist() == ["head", "tail"]
    assert run.start["tasks"] == ["train", "test"]
    assert run.checkpoints[0].name == "best.h5"
    solutions = vaecf.Run(workspace.folder / "runs" / "ease").solutions
    assert solutions["l2"].to_dict() == {1: 50, 2: 200} and solutions["ndcg@100_se"].gt(0).all()


def test_incomplete_last_line_of_a_run_at_work_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"event":"epoch","epoch":1,"loss":2.5}\n{"event":"epoch","epo')
    assert vaecf.Run(tmp_path).epochs["loss"].tolist() == [2.5]
    assert vaecf.Run(tmp_path).validation.empty


def test_dataset_is_read_as_stored(workspace: Workspace) -> None:
    data = vaecf.Dataset(workspace.folder / "features.h5")
    assert data.train.shape == (300, 120) and data.n_items == 120
    assert data.validation.fold_in.shape == data.validation.held_out.shape == (40, 120)
    assert data.test.fold_in.multiply(data.test.held_out).nnz == 0
    assert data.test.user_features is not None and data.test.user_features.shape[0] == 60
    assert data.popularity.sum() == data.train.nnz
    assert len(data.item_id) == 120 and data.item_title is None
    with pytest.raises(vaecf.InputError, match="no titles"):
        data.titles(data.item_id[:2])


def test_matrices_of_a_weighted_dataset_have_weights_and_targets_ones(workspace: Workspace) -> None:
    data = vaecf.Dataset(workspace.folder / "weighted.h5")
    for rows in (data.train, data.validation.fold_in, data.test.fold_in):
        np.testing.assert_allclose(rows.sum(axis=1).A1, np.diff(rows.indptr), rtol=1e-5)
        assert rows.data.dtype == np.float32 and np.ptp(rows.data) > 0.5
    assert (data.test.held_out.data == 1).all() and (data.test.fold_in[3:9].data != 1).any()
    assert data.popularity.tolist() == vaecf.Dataset(workspace.folder / "data.h5").popularity.tolist()


def test_values_count_for_a_model_trained_with_weights_only(workspace: Workspace) -> None:
    fold_in = vaecf.Dataset(workspace.folder / "weighted.h5").test.fold_in
    ones = sp.csr_matrix((np.ones(fold_in.nnz), fold_in.indices, fold_in.indptr), fold_in.shape)
    plain = vaecf.Run(workspace.folder / "runs" / "ease").model()
    assert plain.interaction_weights == "" and (plain.score(fold_in) == plain.score(ones)).all()
    model = vaecf.Run(workspace.folder / "runs" / "ease_weighted").model()
    assert model.interaction_weights == "log1p"
    scores = model.score(fold_in)
    assert (model.score(fold_in.toarray()) == scores).all() and np.abs(model.score(ones) - scores).max() > 0.01
    np.testing.assert_allclose(model.score(2 * fold_in), 2 * scores, rtol=1e-5)
    with pytest.raises(vaecf.InputError, match="finite weights above 0"):
        model.score(-ones)
    with pytest.raises(vaecf.InputError, match="without interaction weights"):
        plain.histories([[plain.item_id[0]]], [[2]])


@pytest.mark.parametrize("name", ["mult_vae_weighted", "item_knn_weighted"])
def test_values_of_a_history_become_the_weights_of_the_program(workspace: Workspace, name: str) -> None:
    model = vaecf.Run(workspace.folder / "runs" / name).model()
    ids, plays = model.item_id[[7, 3, 50]].tolist(), [9, 1, 30]
    lines = [f"ann,{item},{count}\n" for item, count in zip(ids, plays, strict=True)]
    (workspace.folder / "new.csv").write_text(f"user,item,plays\n{''.join(lines)}bob,{ids[1]},4\n")
    command = ["recommend", f"runs/{name}/config.yaml", "--input", "new.csv", "--interaction-weight-column", "plays"]
    written = [line.split("\t") for line in workspace.call(*command, "--top", "120", "-q").splitlines()[1:]]
    rows = model.histories([ids, ids[1:2]], [plays, [4]])
    np.testing.assert_allclose(rows[0].data, np.log1p([1, 9, 30]) / np.log1p([1, 9, 30]).mean(), rtol=1e-6)
    assert rows[1].data.tolist() == [1]
    mine = model.recommend(rows, k=120, users=["ann", "bob"])
    assert mine["user"].tolist() == [line[0] for line in written]
    np.testing.assert_allclose(mine["score"], [float(line[2]) for line in written], rtol=1e-5, atol=1e-5)
    assert np.abs(model.score(model.histories([ids])) - model.score(rows[0])).max() > 1e-3
    assert model.histories([ids + ids[:1]], [[4, 1, 30, 5]]).data.tolist() == rows[0].data.tolist()
    for values, message in (([[1, 2]], "a number for each item"), ([[1, 2, 0]], "above 0"), ([], "a number for each")):
        with pytest.raises(vaecf.InputError, match=message):
            model.histories([ids], values)


ODD_CONFIG = """
name: odd
data:
  file: odd.h5
  source: {format: movielens_csv, path: ratings.csv}
  prepare: {split: random, validation_users: 2, test_users: 3}
model: {type: item_knn}
evaluation: {metrics: [ndcg@2]}
validation: {select: ndcg@2}
"""


def test_ids_in_any_bytes_and_titles_are_read_from_the_checkpoint(workspace: Workspace, tmp_path: Path) -> None:
    users, items = [b"u\xe9%d" % n for n in range(12)], [b"\xe9", b"\xe8", "č".encode(), b"d", b"e", b"f"]
    lines = [b"%s,%s,5,0" % (u, items[(n + k) % 6]) for n, u in enumerate(users) for k in range(5)]
    (tmp_path / "ratings.csv").write_bytes(b"\n".join([b"userId,movieId,rating,timestamp", *lines, b""]))
    (tmp_path / "movies.csv").write_text("movieId,title,genres\nd,Délicatessen,x\n")
    (tmp_path / "odd.yaml").write_text(ODD_CONFIG)
    space = Workspace(workspace.program, tmp_path)
    space.call("prepare", "odd.yaml", "-q")
    space.call("odd.yaml", "-q", "--per-user", "runs/odd/per-user.h5")
    data, model = vaecf.Dataset(tmp_path / "odd.h5"), vaecf.Model(tmp_path / "runs/odd/checkpoints/best.h5")
    assert sorted(item.encode("utf-8", "surrogateescape") for item in data.item_id) == sorted(items)
    table = model.recommend(data.test.fold_in, k=6, users=data.test.user_id, titles=True)
    assert {u.encode("utf-8", "surrogateescape") for u in table["user"]} <= set(users)
    assert table.loc[table["item"] == "d", "title"].eq("Délicatessen").all()
    assert model.histories([["\udce9", "d"]]).nnz == 2
    escaped = vaecf.escaped(table)
    assert "u\\xe9" in escaped["user"].iloc[0] and escaped["score"].equals(table["score"])
    assert vaecf.escaped("\udce9č") == "\\xe9č"
    assert PerUser(tmp_path / "runs/odd/per-user.h5").table["user_id"].tolist() == data.test.user_id.tolist()
    os.rename(tmp_path / "runs/odd", tmp_path / "runs" / os.fsdecode(b"n\xe9w"))
    runs = [vaecf.Run(tmp_path / "runs" / os.fsdecode(b"n\xe9w"))] * 2
    page.write_text(tmp_path / "report.html", runs_page(runs)[0])
    assert "n\\xe9w" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_histories_of_another_dataset_are_refused(workspace: Workspace) -> None:
    data = vaecf.Dataset(workspace.folder / "data.h5")
    model = vaecf.Run(workspace.folder / "runs" / "mult_dae").model()
    expected = model.recommend(data.test.fold_in[:5], k=10)
    other = item_matrix(data.test.fold_in, data.item_id[::-1].copy())
    for rows in (other, other[:5], other[2], other[[1, 2]], other[1:3, :], other[np.arange(60) < 5]):
        with pytest.raises(vaecf.InputError, match="other items than the model"):
            model.recommend(rows)
    with pytest.raises(vaecf.InputError, match="other items than the model"):
        vaecf.Run(workspace.folder / "runs" / "elsa").model().score(item_matrix(other, data.item_id.astype(str)))
    # Matrices of SciPy and NumPy, and results of other operations, are columns of the model.
    for plain in (sp.csr_matrix(other)[:5], other[:5].toarray(), other[:5, np.arange(120)], other[:5] + other[:5]):
        pd.testing.assert_frame_equal(model.recommend(plain, k=10), expected)


def test_titles_and_text_ids_are_read_as_text(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.attrs["items"] = 3
        file["train/indptr"], file["train/indices"] = np.array([0, 2]), np.array([0, 2], np.int32)
        file["train/data"] = np.array([1, 3], np.float32)
        file["items/id"], file["items/title"] = ["a", "b", "c"], ["Alien", "Brazil", "Čapek"]
    data = vaecf.Dataset(tmp_path / "d.h5")
    assert data.train.toarray().tolist() == [[1, 0, 3]]
    assert data.titles(np.array(["c", "a"])) == ["Čapek", "Alien"]
    with pytest.raises(vaecf.InputError, match="no test users"):
        _ = data.test


def test_users_without_items_get_popular_items_and_no_scores(workspace: Workspace) -> None:
    data = vaecf.Dataset(workspace.folder / "data.h5")
    model = vaecf.Run(workspace.folder / "runs" / "ease").model()
    nobody = sp.csr_matrix((1, 120))
    assert np.isnan(model.score(nobody)).all()
    assert model.item_users.tolist() == data.popularity.tolist()
    popular = model.recommend(nobody, k=3)
    order = np.argsort(-data.popularity, kind="stable")[:3]
    assert popular["item"].tolist() == data.item_id[order].tolist()
    assert popular["score"].isna().all()


def test_histories_of_ids_and_dense_rows_are_equal_inputs(workspace: Workspace) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "mult_dae").model()
    ids = model.item_id[[7, 3, 5]]
    rows = model.histories([ids, [str(ids[1])]])
    assert [row.indices.tolist() for row in rows] == [[3, 5, 7], [3]]
    dense = np.zeros((2, 120))
    dense[0, [3, 5, 7]], dense[1, 3] = 4.0, 1.0
    pd.testing.assert_frame_equal(model.recommend(rows), model.recommend(dense))
    seen = model.recommend(rows, k=120, keep_seen=True)
    assert len(seen) == 240 and set(ids) <= set(seen["item"])
    with pytest.raises(vaecf.InputError, match="users: nothing not in the items of .*; correct the ids"):
        model.histories([["nothing"]], unknown="raise")
    with pytest.warns(UserWarning, match="users: skipped 1 unknown ids .nothing."):
        assert (model.histories([[ids[0], "nothing"], [str(ids[1])]]) != rows[:, :]).nnz == 2


def test_new_items_are_recommended_only_if_included(workspace: Workspace, tmp_path: Path) -> None:
    shutil.copy(workspace.folder / "data.h5", tmp_path / "data.h5")
    shutil.copy(workspace.folder / "config.yaml", tmp_path / "config.yaml")
    make_new_items(tmp_path / "data.h5", 100)
    run = vaecf.Run(Workspace(workspace.program, tmp_path).train("ease", ["model.type=ease", "model.ease.l2=50"]))
    model, fold_in = run.model(), run.dataset().test.fold_in[:5]
    assert model.n_new_items == 100
    assert set(model.recommend(fold_in, k=120)["item"]) <= set(model.item_id[:20])
    assert set(model.recommend(fold_in, k=120, include=model.item_id[[5, 118]])["item"]) == set(model.item_id[[5, 118]])
    nobody = model.recommend(sp.csr_matrix((1, 120)), k=120)
    assert set(nobody["item"]) == set(model.item_id[:20])


def test_groups_and_baselines_are_tables(tmp_path: Path) -> None:
    def metrics(value: float, **more: float) -> dict[str, Any]:
        return {"metrics": {"ndcg@100": {"value": value, "se": 0.01, **more}}}

    new_items = {"users": 9, "items": 4, **metrics(0.2, random=0.03)}
    alone = {"users": 12, **metrics(0.1), "groups": {"with_history": {"users": 10, **metrics(0.3)}}}
    baselines = {"popularity": metrics(0.15), "ease": {"settings": {"l2": 500.0}, **metrics(0.4), "groups": {"new_items": new_items}}}
    events = [
        {"event": "start", "tasks": ["train"], "name": "a"},
        {"event": "validation", "epoch": 2, **metrics(0.5), "groups": {"new_items": new_items}},
        {"event": "start", "tasks": ["test"], "name": "b"},
        {"event": "test", "epoch": 2, **metrics(0.6), "groups": {"features_alone": alone}, "baselines": baselines},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    run = vaecf.Run(tmp_path)
    assert run.name == "a"
    assert run.validation.loc[2].to_dict() == {"ndcg@100": 0.5, "ndcg@100_se": 0.01}
    assert run.baselines["ndcg@100"].to_dict() == {"popularity": 0.15, "ease": 0.4}
    assert run.baselines.loc["ease", "settings"] == {"l2": 500.0}
    assert run.groups["ndcg@100"].to_dict() == {
        ("validation", 2, "model", "new_items"): 0.2,
        ("test", 2, "model", "features_alone"): 0.1,
        ("test", 2, "features_alone", "with_history"): 0.3,
        ("test", 2, "ease", "new_items"): 0.2,
    }
    assert run.groups.loc[("test", 2, "ease", "new_items"), ["users", "items", "ndcg@100_random"]].tolist() == [9, 4, 0.03]
    table = vaecf.leaderboard(run).droplevel("dataset")
    assert table[("all", "ndcg@100", "value")].to_dict() == {"a": 0.6, "ease": 0.4, "popularity": 0.15, "a, features alone": 0.1}
    assert table.loc["ease", [("new_items", "ndcg@100", "value"), ("new_items", "ndcg@100", "random")]].tolist() == [0.2, 0.03]


def test_errors_say_what_to_do(workspace: Workspace, tmp_path: Path) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "elsa").model()
    for action, message in (
        (lambda: model.score(np.ones((1, 7))), "120 columns, got 7"),
        (lambda: model.score(np.ones((1, 120)), np.ones((1, 4))), "without features"),
        (lambda: model.recommend(np.ones((1, 120)), k=0), "1 or more"),
        (lambda: model.recommend(np.ones((1, 120)), reasons=-1), "0 or more"),
        (lambda: vaecf.Model(workspace.folder / "data.h5"), "is not a checkpoint"),
        (lambda: vaecf.Dataset(workspace.folder / "runs/elsa/checkpoints/best.h5"), "is not a dataset"),
        (lambda: vaecf.Dataset(tmp_path / "missing.h5"), "missing.h5: no such file; check the path$"),
        (lambda: vaecf.Dataset(workspace.folder / "config.yaml"), "config.yaml: cannot be read as HDF5"),
        (lambda: vaecf.Run(tmp_path), "no metrics.jsonl"),
    ):
        with pytest.raises(vaecf.InputError, match=message):
            action()
