"""Model.recommend() from tables with its controls, and Model.similar(), against vaecf_dist."""

import io
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from conftest import MODELS, Workspace
from reference import scorer_of

import vaecf

PEOPLE = """
data:
  file: people.h5
  source: {format: movielens_csv, path: ratings.csv, users: {path: people.csv, user_column: userId}}
  prepare: {user_features: [band, land], split: random, validation_users: 5, test_users: 20}
model: {type: mult_vae, hidden: [8], latent: 4}
train: {epochs: 1, batch_size: 10, precision: fp32, annealing: {steps: 1}}
evaluation: {metrics: [ndcg@2]}
validation: {select: ndcg@2}
"""


@pytest.fixture(name="events")
def _events(workspace: Workspace) -> pd.DataFrame:
    """Returns events of 20 users in a shuffled order, some of them twice."""
    data = vaecf.Dataset(workspace.folder / "data.h5")
    rows = data.test.fold_in[:20].tocoo()
    table = pd.DataFrame({"uid": [f"u{row}" for row in rows.row], "track": data.item_id[rows.col]})
    return pd.concat([table, table[::3]]).sample(frac=1, random_state=4).reset_index(drop=True)


def _program(workspace: Workspace, tmp_path: Path, run: str, events: pd.DataFrame, *options: str) -> pd.DataFrame:
    """Returns the lists of vaecf_dist recommend."""
    events.rename(columns={"uid": "user", "track": "item"}).to_csv(tmp_path / "events.csv", index=False)
    checkpoint = str(workspace.folder / "runs" / run / "checkpoints" / "best.h5")
    command = [workspace.program, "recommend", "--checkpoint", checkpoint, "--input", str(tmp_path / "events.csv")]
    result = subprocess.run(
        [*command, "--set", "train.precision=fp32", "-q", *options],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return pd.read_csv(io.StringIO(result.stdout), sep="\t")


def test_lists_for_a_table_are_those_of_the_program(workspace: Workspace, tmp_path: Path, events: pd.DataFrame) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "elsa").model()
    (tmp_path / "include").write_text("\n".join(map(str, model.item_id[:90])))
    (tmp_path / "exclude").write_text("\n".join(map(str, model.item_id[5:20])))
    files = ["--include", str(tmp_path / "include"), "--exclude", str(tmp_path / "exclude")]
    theirs = _program(workspace, tmp_path, "elsa", events, "--top", "7", "--user", "u9", "--user", "u3", *files)
    mine = model.recommend(
        events,
        k=7,
        user="uid",
        item="track",
        only=["u9", "u3"],
        include=model.item_id[:90],
        exclude=model.item_id[5:20],
    )
    assert mine[["user", "item"]].to_numpy().tolist() == theirs[["user", "item"]].to_numpy().tolist()
    np.testing.assert_allclose(mine["score"], theirs["score"], rtol=1e-4)
    every = model.recommend(events, user="uid", item="track", k=3)
    assert every["user"].tolist()[::3] == events["uid"].drop_duplicates().tolist()
    assert every["item"].tolist() == _program(workspace, tmp_path, "elsa", events, "--top", "3")["item"].tolist()


def test_features_of_users_are_those_of_the_program(workspace: Workspace, tmp_path: Path) -> None:
    people = pd.DataFrame({"userId": range(60)})
    for name, values in (
        ("band", ["25", " 35", "", "a value of more than thirty-two bytes, see"]),
        ("land", ["é", "de"]),
    ):
        people[name] = [values[n % len(values)] for n in range(60)]
    lines = [f"{n},{(n * k) % 17 + 100},5,{k}" for n in range(60) for k in range(1, 12)]
    (tmp_path / "ratings.csv").write_text("\n".join(["userId,movieId,rating,timestamp", *lines, ""]))
    people.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "config.yaml").write_text(PEOPLE)
    space = Workspace(workspace.program, tmp_path)
    space.call("prepare", "config.yaml", "-q")
    run = vaecf.Run(space.train("people", []))
    data, model = run.dataset(), run.model()
    assert data.test.user_features is not None
    mine = model.user_features_of(people, "userId", data.test.user_id)
    assert (mine != data.test.user_features).nnz == 0 and mine.nnz > 20
    assert (model.user_features_of(people.iloc[[7, 3]]) != model.user_features_of(people)[[7, 3]]).nnz == 0
    fold_in = data.test.fold_in.tocoo()
    events = pd.DataFrame({"u": data.test.user_id[fold_in.row], "i": data.item_id[fold_in.col]})
    table = model.recommend(events, user="u", item="i", user_features=people.rename(columns={"userId": "u"}))
    expected = model.recommend(data.test.fold_in, user_features=data.test.user_features, users=data.test.user_id)
    assert table["item"].tolist() == expected["item"].tolist()
    with pytest.warns(UserWarning, match="1 users are not in the table"):
        assert model.user_features_of(people, "userId", [3, 99], unknown="skip")[1].nnz == 0
    with pytest.raises(vaecf.InputError, match="users: 99 not in the table"):
        model.user_features_of(people, "userId", [3, 99])
    with pytest.raises(vaecf.InputError, match="land is not a column"):
        model.user_features_of(people[["userId", "band"]])
    lines = people.iloc[[3, 4, 3]].assign(userId=[3, 4, 3], band=["35", "", "25"])
    joined, alone = model.user_features_of(lines, "userId", [3, 4]), model.user_features_of(lines)
    assert (joined[0] != alone[0].maximum(alone[2])).nnz == 0 and (joined[1] != alone[1]).nnz == 0


def test_tables_of_other_libraries_and_kinds_of_ids_are_read(workspace: Workspace, events: pd.DataFrame) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "ease").model()
    expected = model.recommend(events, user="uid", item="track")
    tables: list[Any] = [events.astype({"track": float}), events.astype({"track": str, "uid": "category"})]
    tables += [events.astype({"track": "Int64", "uid": "string"})]
    for library, make in (("polars", "from_pandas"), ("pyarrow", "table")):
        try:
            module = __import__(library)
        except ImportError:
            continue
        data = {name: events[name].tolist() for name in events}
        tables.append(module.DataFrame(data) if library == "polars" else getattr(module, make)(data))
    for table in tables:
        found = model.recommend(table, user="uid", item="track")
        assert (
            found["item"].tolist() == expected["item"].tolist() and found["user"].tolist() == expected["user"].tolist()
        )


def test_items_are_excluded_for_all_users_or_for_one(workspace: Workspace, events: pd.DataFrame) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "mult_vae").model()

    def lists(**controls: Any) -> dict[str, list[int]]:
        table = model.recommend(events, user="uid", item="track", k=4, **controls)
        return {str(user): part.tolist() for user, part in table.groupby("user")["item"]}

    plain = lists()
    first = plain["u1"][0]
    blocked = lists(exclude={"u1": [first], "absent": [plain["u2"][0]], "u4": []})
    assert blocked["u1"][:3] == plain["u1"][1:] and all(blocked[u] == plain[u] for u in plain if u != "u1")
    assert all(first not in items for items in lists(exclude=[first]).values())
    data = vaecf.Dataset(workspace.folder / "data.h5")
    of_matrix = model.recommend(data.test.fold_in[:2], users=["a", "b"], exclude={"b": [first]}, only=["b"], k=120)
    assert set(of_matrix["user"]) == {"b"} and first not in set(of_matrix["item"])


def test_unknown_ids_are_listed_or_raised(workspace: Workspace, events: pd.DataFrame) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "ease").model()
    columns = {"user": "uid", "item": "track"}
    strange = pd.concat([events, pd.DataFrame({"uid": ["u1"] * 7, "track": range(9001, 9008)})])
    with pytest.raises(
        vaecf.InputError, match='track: 9001, 9002, 9003, 9004, 9005 ... not in .*best.h5; .*unknown="skip"'
    ):
        model.recommend(strange, unknown="raise", **columns)
    with pytest.warns(UserWarning, match=r"track: skipped 7 unknown ids \(9001, .* 9005 ...\)"):
        found = model.recommend(strange, **columns)
    expected = model.recommend(events, **columns)
    pd.testing.assert_frame_equal(found, expected)
    gaps = pd.DataFrame({"uid": [None, "u1"], "track": [3.0, None]})
    with pytest.warns(UserWarning, match="skipped 1 lines without (uid|track)"):
        found = model.recommend(pd.concat([events, gaps]), **columns)
    pd.testing.assert_frame_equal(found, expected)
    some = [9001, int(expected["item"][0])]
    with pytest.warns(UserWarning, match="include: skipped 1 unknown ids"):
        model.recommend(events, **columns, include=some)
    for unknown, name, ids in (
        ("raise", "include", some),
        ("skip", "include", [9001]),
        ("skip", "only", ["u1", "x"]),  # x is asked for
    ):
        with pytest.raises(vaecf.InputError, match=f"{name}: (9001|x) not in"):
            model.recommend(events, unknown=unknown, **columns, **{name: ids})
    with pytest.raises(vaecf.InputError, match="track: 9001, .* not in"):  # none is known
        model.recommend(strange.tail(7), **columns)
    # The table counts, as the file of `recommend --input`, not the users that are asked for.
    lost = pd.concat([events, pd.DataFrame({"uid": ["lost"], "track": [9001]})])
    with pytest.warns(UserWarning, match=r"track: skipped 1 unknown ids \(9001\)$"):
        found = model.recommend(lost, only=["lost"], **columns)
    assert len(found) == 10 and found["score"].isna().all()


def test_lists_of_ids_are_the_histories_of_new_users(workspace: Workspace) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "elsa").model()
    ids = [model.item_id[[3, 8]].tolist(), [str(model.item_id[40])], []]
    matrix = np.zeros((3, model.n_items))
    matrix[0, [3, 8]] = matrix[1, 40] = 1
    of_matrix = model.recommend(matrix, k=4)
    pd.testing.assert_frame_equal(model.recommend(ids, k=4), of_matrix)
    assert (model.score(ids[:2]) == model.score(matrix[:2])).all()
    assert (model.user_vectors(ids) == model.user_vectors(matrix)).all()
    named = dict(zip(["ann", 7, "cyd"], ids, strict=True))
    of_dict = model.recommend(named, k=4, only=["cyd", "7"], exclude={"cyd": [of_matrix["item"].iloc[8]]})
    assert of_dict["user"].tolist() == ["cyd"] * 4 + ["7"] * 4
    assert of_dict["item"].tolist()[:3] == of_matrix["item"].tolist()[9:] and of_dict["item"].tolist()[4:] == of_matrix["item"].tolist()[4:8]
    with pytest.warns(UserWarning, match=r"users: skipped 2 unknown ids \(8001, 8002\)"):
        found = model.recommend({"ann": [*ids[0], 8001, 8002], "bob": [8001]}, k=4)
    assert found["item"].tolist()[:4] == of_matrix["item"].tolist()[:4]
    assert found["item"].tolist()[4:] == of_matrix["item"].tolist()[8:]  # the most popular items
    with pytest.raises(vaecf.InputError, match="users: 8001 not in"):
        model.recommend([[8001]], unknown="raise")
    with pytest.raises(vaecf.InputError, match="each of the users must be a list of ids, got 3"):
        model.recommend([3, 8])
    with pytest.raises(vaecf.InputError, match="the keys of the dict have the ids"):
        model.recommend(named, users=["a", "b", "c"])


def test_dicts_of_values_become_weights(workspace: Workspace) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "ease_weighted").model()
    ids = model.item_id[[3, 8]].tolist()
    expected = model.histories([ids], [[9, 1]])
    assert (model.histories([dict(zip(ids, [9, 1], strict=True))]) != expected).nnz == 0
    assert (model.score({"ann": dict(zip(ids, [9, 1], strict=True))}) == model.score(expected)).all()
    with pytest.raises(vaecf.InputError, match="trained without interaction weights"):
        vaecf.Run(workspace.folder / "runs" / "ease").model().score([{ids[0]: 2}])


def test_unknown_items_to_exclude_or_limit_are_a_warning(workspace: Workspace, events: pd.DataFrame) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "ease").model()
    columns = {"user": "uid", "item": "track", "k": 5}
    plain = model.recommend(events, **columns)
    ids = ", ".join(map(str, model.item_id[:3]))
    for name, value in (("exclude", [9001]), ("exclude", {"u1": [9001]}), ("at_most", ({9001: "rock"}, 1))):
        with pytest.warns(
            UserWarning, match=f"^{name}: skipped 1 unknown ids .9001.; none is in the items of .*best.h5 .{ids} "
        ):
            found = model.recommend(events, **columns, **{name: value})
        pd.testing.assert_frame_equal(found, plain)
    best = plain["item"].iloc[0]
    for name, value in (
        ("exclude", [9001, best]),
        ("exclude", {"u1": [9001], "u2": [best]}),
        ("at_most", ({9001: "rock", best: "pop"}, 1)),
    ):
        with pytest.warns(UserWarning, match=f"^{name}: skipped 1 unknown ids .9001.$"):
            model.recommend(events, **columns, **{name: value})
        with pytest.raises(vaecf.InputError, match=f'^{name}: 9001 not in .*; correct the ids, or skip some with unknown="skip"$'):
            model.recommend(events, unknown="raise", **columns, **{name: value})


def _limited(full: pd.DataFrame, k: int, most: int, categories: dict[int, list[str]]) -> list[tuple[str, int]]:
    """Returns users and items of lists in which no category has more than `most` items, from lists of all items."""
    found: list[tuple[str, int]] = []
    for user, part in full.groupby("user", sort=False):
        counts: dict[str, int] = {}
        items: list[int] = []
        for item in part["item"]:
            mine = categories.get(item, [])
            if len(items) < k and all(counts.get(category, 0) < most for category in mine):
                items.append(item)
                counts.update({category: counts.get(category, 0) + 1 for category in mine})
        found += [(str(user), item) for item in items]
    return found


def test_items_of_several_categories_are_limited_as_by_the_program(
    workspace: Workspace, tmp_path: Path, events: pd.DataFrame
) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "ease").model()
    columns = {"user": "uid", "item": "track", "only": ["u0", "u1"]}
    kinds = [["rock"], ["rock", "jazz"], [], ["jazz", "pop", "folk"], ["pop"]]
    categories = {int(item): kinds[n % len(kinds)] for n, item in enumerate(model.item_id)}
    full = model.recommend(events, k=120, **columns)
    text = pd.Series({item: " | ".join(names) or None for item, names in categories.items()})
    lists = pd.Series({item: [*names, None] for item, names in categories.items()})
    forms: list[Any] = [text, text.to_dict(), lists, lists.to_dict(), lists.explode(), text.astype("category")]
    forms += [pd.Series({str(item): tuple(names) for item, names in categories.items()})]
    for most in (1, 3):
        expected = _limited(full, 12, most, categories)
        assert expected != _limited(full, 12, most, {})
        for form in forms:
            mine = model.recommend(events, k=12, at_most=(form, most), **columns)
            assert list(zip(mine["user"], mine["item"], strict=True)) == expected, form
        text.rename("genres").rename_axis("item").reset_index().assign(n=1).to_csv(tmp_path / "kinds.csv")
        options = ["--at-most", str(tmp_path / "kinds.csv"), str(most), "--category-column", "genres"]
        users = ["--user", "u0", "--user", "u1"]
        theirs = _program(workspace, tmp_path, "ease", events, "--top", "12", *users, *options)
        assert list(zip(theirs["user"], theirs["item"], strict=True)) == expected
    one = next(item for item, names in categories.items() if names == ["rock"])
    others = {item: "rock" for item in categories if item != one}
    for value, alone in (("rock | jazz", False), (["rock|jazz"], True)):  # The text in a list is one value.
        mine = model.recommend(events, k=120, keep_seen=True, at_most=({one: value, **others}, 1), **columns)
        assert mine["user"].value_counts().eq(2 if alone else 1).all() and (one in set(mine["item"]) or not alone)
    unlimited = model.recommend(events, k=5, at_most=({int(item): "one" for item in model.item_id}, 2**32 + 1), **columns)
    pd.testing.assert_frame_equal(unlimited, model.recommend(events, k=5, **columns))
    unlimited = model.recommend(events, k=5, at_most=({}, 1), **columns)
    pd.testing.assert_frame_equal(unlimited, model.recommend(events, k=5, **columns))


@pytest.mark.parametrize("duplicates", ["first", "last", "sum", "max"])
def test_play_counts_of_a_table_are_weights_as_for_the_program(
    workspace: Workspace, tmp_path: Path, events: pd.DataFrame, duplicates: str
) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "elsa_weighted").model()
    model.config["data.prepare.duplicates"] = duplicates
    plays = events.assign(plays=1 + np.arange(len(events)) * 7 % 23)
    options = ["--interaction-weight-column", "plays", "--set", f"data.prepare.duplicates={duplicates}", "--top", "5"]
    theirs = _program(workspace, tmp_path, "elsa_weighted", plays, *options)
    only = theirs["user"].drop_duplicates().tolist()
    mine = model.recommend(plays, user="uid", item="track", rating="plays", only=only, k=5)
    assert mine[["user", "item"]].equals(theirs[["user", "item"]])
    np.testing.assert_allclose(mine["score"], theirs["score"], rtol=1e-4, atol=1e-5)


def test_table_without_play_counts_is_a_warning_for_a_model_with_weights(
    workspace: Workspace, events: pd.DataFrame
) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "ease_weighted").model()
    columns = {"user": "uid", "item": "track"}
    with pytest.warns(UserWarning, match="trained with interaction weights .log1p.; name the column .* by rating="):
        same = model.recommend(events, **columns)
    pd.testing.assert_frame_equal(same, model.recommend(events.assign(n=3), rating="n", **columns))
    for value, message in (("two", "line 0 of the table has n two"), (None, "line 0"), (0, "n must be .* above 0")):
        with pytest.raises(vaecf.InputError, match=message):
            model.recommend(events.assign(n=value), rating="n", **columns)
    with pytest.raises(vaecf.InputError, match="rating is for tables"):
        model.recommend(np.ones((1, model.n_items)), rating="n")
    with pytest.raises(vaecf.InputError, match="without interaction weights; omit n"):
        vaecf.Run(workspace.folder / "runs" / "ease").model().recommend(events.assign(n=3), rating="n", **columns)


def test_titles_are_added_to_items_and_reasons(workspace: Workspace, events: pd.DataFrame, tmp_path: Path) -> None:
    plain = vaecf.Run(workspace.folder / "runs" / "elsa").model()
    columns: dict[str, Any] = {"user": "uid", "item": "track", "titles": True}
    with pytest.raises(vaecf.InputError, match="contains no titles"):
        plain.recommend(events, **columns)
    for name in ("data.h5", "config.yaml"):
        shutil.copy(workspace.folder / name, tmp_path / name)
    with h5py.File(tmp_path / "data.h5", "r+") as file:
        file["items/title"] = np.array([f"title {item}" for item in plain.item_id], "S")
    model = vaecf.Run(Workspace(workspace.program, tmp_path).train("titles", MODELS["elsa"])).model()
    table = model.recommend(events, k=2, reasons=2, **columns)
    for kind in ("item", "because_1", "because_2"):
        title = {"item": "title", "because_1": "because_title_1", "because_2": "because_title_2"}[kind]
        assert table[title].tolist() == [f"title {item}" for item in table[kind]]
    assert model.similar(model.item_id[0], k=1, titles=True)["title"][0].startswith("title ")


@pytest.mark.parametrize("name", MODELS)
def test_similar_items_are_those_of_the_program(workspace: Workspace, name: str) -> None:
    model = vaecf.Run(workspace.folder / "runs" / name).model()
    ids = [model.item_id[7], model.item_id[100]]
    options = [option for item in ids for option in ("--item", str(item))]
    text = workspace.call("similar", "--checkpoint", str(model.path), *options, "--top", "15", "-q")
    theirs, mine = pd.read_csv(io.StringIO(text), sep="\t"), model.similar(ids, k=15)
    assert mine["item"].tolist() == theirs["item"].tolist()
    np.testing.assert_allclose(mine["score"], theirs["score"], rtol=1e-5, atol=1e-6)
    assert mine["similar"].tolist() == theirs["similar"].tolist()
    columns = np.searchsorted(model.item_id, mine["similar"])
    truth = scorer_of(model).similarities(np.array([7, 100]))[(mine["item"] != ids[0]).astype(int), columns]
    np.testing.assert_allclose(mine["score"], truth, rtol=1e-4, atol=1e-5)
    assert (
        not (mine["similar"] == mine["item"]).any() and model.similar(str(ids[0]), k=3)["item"].tolist() == [ids[0]] * 3
    )


@pytest.mark.parametrize(
    "controls, message",
    [
        ({"user": "uid"}, "user and item must both name a column"),
        ({"user": "uid", "item": "song"}, "song is not a column of the table; its columns are uid, track"),
        ({"user": "uid", "item": "track", "users": [1]}, "users is for matrices"),
        ({"user": "uid", "item": "track", "unknown": "drop"}, 'must be "skip" or "raise"'),
        ({"user": "uid", "item": "track", "at_most": ({}, 0)}, "number of items in at_most must be a whole number, 1 or more, got 0"),
        ({"user": "uid", "item": "track", "k": "3"}, "k must be a whole number, 1 or more, got '3'"),
        ({"user": "uid", "item": "track", "k": 2.5}, "k must be a whole number, 1 or more, got 2.5"),
        ({"user": "uid", "item": "track", "k": True}, "k must be a whole number, 1 or more, got True"),
        ({"user": "uid", "item": "track", "reasons": "3"}, "reasons must be a whole number, 0 or more, got '3'"),
        ({"user": "uid", "item": "track", "reasons": 2**32}, "reasons must be at most 1000, got 4294967296"),
        ({"user": "uid", "item": "track", "only": 12.0}, "only must be a list of ids, got 12.0"),
        ({"user": "uid", "item": "track", "only": [["u1"]]}, r"\['u1'\] is not an id; ids must be integers or texts"),
        ({"user": "uid", "item": "track", "at_most": {}}, "at_most must be a pair of the categories"),
        ({"user": "uid", "item": "track", "at_most": ("genre", 2)}, "a Series or dict by item id, got str"),
        ({"user": "uid", "item": "track", "at_most": (pd.DataFrame(), 2)}, "a Series or dict by item id, got DataFrame"),
        ({"user": "uid", "item": "track", "only": "u12"}, r"only must be a list of ids, got 'u12'; write \['u12'\]"),
        ({"user": "uid", "item": "track", "include": 12}, "include must be a list of ids, got 12"),
        ({"user": "uid", "item": "track", "exclude": "12"}, "exclude must be a list of ids, got '12'"),
        ({"user": "uid", "item": "track", "exclude": pd.DataFrame({"a": [1]})}, r'exclude .* got a DataFrame; pass .* table\["item"\]'),
        ({"user": "uid", "item": "track", "exclude": {"u1": "12"}}, "exclude must be a list of ids, got '12'"),
        ({}, "histories must be a matrix of numbers, got DataFrame; recommend.. takes a table .* user= and item= name"),
    ],
)
def test_wrong_controls_are_input_errors(
    workspace: Workspace, events: pd.DataFrame, controls: dict[str, Any], message: str
) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "ease").model()
    with pytest.raises(vaecf.InputError, match=message):
        model.recommend(events, **controls)
    with pytest.raises(vaecf.InputError, match="must be a DataFrame of pandas, Polars or PyArrow, got str; read a file"):
        model.recommend("events.parquet", user="uid", item="track")
    with pytest.raises(vaecf.InputError, match="each of the users must be a list of ids, got '12'"):
        model.histories(["12"])
    for uid, track, reason in (
        (None, 3, "line 0 of the table has no uid"),
        ("u", None, "has no track"),
        ("u", 1.5, "1.5 is"),
    ):
        with pytest.raises(vaecf.InputError, match=reason):
            model.recommend(pd.DataFrame({"uid": [uid], "track": [track]}), user="uid", item="track", unknown="raise")
    with pytest.raises(vaecf.InputError, match="items: nothing not in .*; correct the ids$"):
        model.similar("nothing")
    for items in (None, [[1, 2]]):
        with pytest.raises(vaecf.InputError, match="items must be a list of ids, got None|is not an id"):
            model.similar(items)
    with pytest.raises(vaecf.InputError, match="the column uid of the table has lists"):
        model.recommend(pd.DataFrame({"uid": [["u"]], "track": [3]}), user="uid", item="track")
    whole = model.recommend(events, user="uid", item="track", only=["u1"], k=3.0)  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(whole, model.recommend(events, user="uid", item="track", only=["u1"], k=3))
