"""vaecf.evaluate(): lists of models, of tables and of files, against the tests of vaecf_dist."""

import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from conftest import Workspace, make_new_items

import vaecf

METRICS = ["ndcg@100", "recall@20", "coverage@10"]


def with_other_items(workspace: Workspace, path: Path, unknown: int) -> vaecf.Dataset:
    """Returns a copy of data.h5 with its items in another order, the last `unknown` of which have new ids."""
    shutil.copy(workspace.folder / "data.h5", path)
    ids = vaecf.Dataset(path).item_id
    place = np.random.default_rng(3).permutation(len(ids))
    with h5py.File(path, "r+") as file:
        for name in ("train", "validation/fold_in", "validation/held_out", "test/fold_in", "test/held_out"):
            group = file[name]
            rows = np.split(place[group["indices"][:]], group["indptr"][1:-1])
            group["indices"][:] = np.concatenate([np.sort(row) for row in rows])
        moved = np.empty_like(ids)
        moved[place] = ids
        moved[len(ids) - unknown :] = np.arange(9001, 9001 + unknown)
        if "items/id" in file:
            del file["items/id"]
        file["items/id"] = moved
    return vaecf.Dataset(path)


@pytest.mark.parametrize("name", ["elsa", "ease", "mult_vae_features", "elsa_weighted", "item_knn_weighted"])
def test_lists_of_a_model_have_the_metrics_of_its_test(workspace: Workspace, name: str) -> None:
    run = vaecf.Run(workspace.folder / "runs" / name)
    data = vaecf.Dataset(workspace.folder / run.config["data.file"])
    table = vaecf.evaluate(data, run, METRICS)
    board = vaecf.leaderboard(run).xs(name, level="model").iloc[0]
    values = {(group, metric, part): value for (group, metric, part), value in board.items()}
    for metric, row in table.iterrows():
        group, _, of_all = str(metric).rpartition("/")
        for part in ("value", "se"):
            expected = values.pop((group or "all", of_all, part), np.nan)
            np.testing.assert_allclose(row[part], expected, atol=1e-6, err_msg=f"{metric} {part}")
    assert not values
    assert table.attrs["users"] == run.last("test")["users"] and table.attrs["order"] == "as in the file"
    pd.testing.assert_frame_equal(vaecf.evaluate(data.path, run.model(), METRICS), table)


@pytest.mark.parametrize("name", ["elsa", "elsa_weighted"])
def test_a_model_is_judged_on_a_dataset_with_other_items(workspace: Workspace, tmp_path: Path, name: str) -> None:
    run = vaecf.Run(workspace.folder / "runs" / name)
    table = vaecf.evaluate(workspace.folder / run.config["data.file"], run, "recall@20")
    if name == "elsa":
        moved = vaecf.evaluate(with_other_items(workspace, tmp_path / "moved.h5", 0), run, "recall@20")
        np.testing.assert_allclose(moved, table, atol=1e-6)
    data = with_other_items(workspace, tmp_path / "data.h5", 30)
    if name == "elsa_weighted":
        with pytest.raises(vaecf.InputError, match="prepare the dataset with the same data.prepare.interaction_weights"):
            vaecf.evaluate(data, run)
        return
    with pytest.warns(UserWarning, match=r"the items of the histories: skipped 30 unknown ids \(9001, "):
        fewer = vaecf.evaluate(data, run, "recall@20")
    assert 0 < fewer.loc["recall@20", "value"] < table.loc["recall@20", "value"]


def test_a_model_lists_no_items_without_train_users_on_another_dataset(workspace: Workspace, tmp_path: Path) -> None:
    shutil.copy(workspace.folder / "data.h5", tmp_path / "data.h5")
    shutil.copy(workspace.folder / "config.yaml", tmp_path / "config.yaml")
    make_new_items(tmp_path / "data.h5", 100)
    run = vaecf.Run(Workspace(workspace.program, tmp_path).train("ease", ["model.type=ease", "model.ease.l2=50"]))
    found = vaecf.evaluate(with_other_items(workspace, tmp_path / "moved.h5", 0), run, "coverage@100")
    assert found.loc["coverage@100", "value"] == pytest.approx(20 / 120)


def test_weights_of_a_dataset_with_other_items_are_those_of_the_known_ones(workspace: Workspace) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "elsa_weighted").model()
    fold_in = vaecf.Dataset(workspace.folder / "weighted.h5").test.fold_in
    assert abs(model.histories(fold_in) - fold_in).max() < 1e-6
    known = fold_in[:3]
    known.item_id = np.concatenate([model.item_id[:60], np.arange(9001, 9061)])
    with pytest.warns(UserWarning, match="skipped 60 unknown ids"):
        rows = model.histories(known)
    part = fold_in[:3][:, :60]
    expected = part.toarray() / (part.sum(axis=1) / np.maximum((part != 0).sum(axis=1), 1)).clip(1e-9)
    np.testing.assert_allclose(rows.toarray()[:, :60], np.asarray(expected), rtol=1e-5)
    with pytest.raises(vaecf.InputError, match="skip some with unknown"):
        model.histories(known, unknown="raise")


def test_lists_of_tables_are_sorted_and_counted(workspace: Workspace, tmp_path: Path) -> None:
    data = vaecf.Dataset(workspace.folder / "data.h5")
    model = vaecf.Run(workspace.folder / "runs" / "ease").model()
    lists = model.recommend(data.test.fold_in, k=20, users=data.test.user_id)
    expected = vaecf.evaluate(data, model, "recall@20")
    shuffled = lists.sample(frac=1, random_state=1)
    tables: list[Any] = [lists.drop(columns="score"), shuffled, shuffled.astype({"user": float, "item": str})]
    try:
        import pyarrow as pa

        tables.append(pa.Table.from_pandas(shuffled))
    except ImportError:
        pass
    for table in tables:
        found = vaecf.evaluate(data, table, "recall@20")
        np.testing.assert_allclose(found, expected, atol=1e-9)
    named = lists.rename(columns={"user": "who", "item": "what"})
    file = tmp_path / "per-user.h5"
    found = vaecf.evaluate(data, named, ["recall@20"], user="who", item="what", per_user=file)
    pd.testing.assert_frame_equal(found, vaecf.evaluate(data, lists, ["recall@20"]))
    with h5py.File(file) as values:
        assert values.attrs["model"] == b"lists" and values["recall@20"][:].mean() == pytest.approx(found.loc["recall@20", "value"])
    lists.to_csv(tmp_path / "mine.csv", index=False)
    np.testing.assert_allclose(vaecf.evaluate(data, tmp_path / "mine.csv", "recall@20"), found, atol=1e-9)
    some = pd.concat([lists[lists["user"] != data.test.user_id[0]], pd.DataFrame({"user": [99999], "item": [1], "score": [1]})])
    with pytest.warns(UserWarning) as caught:
        found = vaecf.evaluate(data, some.replace({"item": {lists["item"][30]: 8888}}), "recall@20")
    assert [str(warning.message).split(" ", 2)[0] for warning in caught] == ["lists:"] * 3
    assert found.attrs["users_without_list"] == 1 and found.attrs["unknown_users"] == 1 and found.attrs["unknown_items"] > 0
    assert vaecf.evaluate(data, lists, split="test").index[:3].tolist() == ["ndcg@100", "recall@20", "recall@50"]


def test_what_cannot_be_judged_is_an_input_error(workspace: Workspace, tmp_path: Path) -> None:
    data = vaecf.Dataset(workspace.folder / "data.h5")
    model = vaecf.Run(workspace.folder / "runs" / "elsa").model()
    lists = model.recommend(data.test.fold_in, users=data.test.user_id)
    for arguments, message in (
        ((data, lists, "ndgc@10"), "ndgc@10"),
        ((data, model, "ndcg@x"), "ndcg@x"),
        ((data, pd.concat([lists, lists])), "^lists:[0-9]+: .*twice"),
        ((data, lists.rename(columns={"item": "x"})), "item is not a column of the table"),
        ((data, tmp_path / "none.csv"), "none.csv"),
        ((data, [[1, 2]]), "must be a DataFrame"),
    ):
        with pytest.raises(vaecf.InputError, match=message):
            vaecf.evaluate(*arguments)
    for value in (model, lists):
        with pytest.raises(vaecf.InputError, match="^split= must be test or validation, got .train"):
            vaecf.evaluate(data, value, split="train")
    run = vaecf.Run(workspace.folder / "runs" / "mult_vae_features")
    shutil.copy(workspace.folder / "features.h5", tmp_path / "features.h5")
    with h5py.File(tmp_path / "features.h5", "r+") as file:
        file.attrs["feature_hashing"] = np.bytes_("another")
    with pytest.raises(vaecf.InputError, match="the user features are not those of"):
        vaecf.evaluate(tmp_path / "features.h5", run)
