"""Texts of features, and ids: what training makes of a table is what serving makes of it."""

import csv
import datetime
import decimal
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Workspace

import vaecf
from vaecf import InputError
from vaecf.ids import IdLookup, id_text, native_column, read_events
from vaecf.values import field_texts, python_values, value_text

ROOT = Path(__file__).parents[2]

CELLS: list[tuple[Any, list[str]]] = [
    (True, ["True"]),
    (np.bool_(False), ["False"]),
    (1e20, ["1e+20"]),
    (1e-7, ["1e-07"]),
    (25.0, ["25"]),
    (-0.0, ["0"]),
    (np.float32(0.1), ["0.1"]),
    (decimal.Decimal("1.50"), ["1.5"]),
    (2**60, [str(2**60)]),
    (" a b\t", ["a b"]),
    ("25.0| -3.0|2.50|1.0.0", ["25", "-3", "2.5", "1.0.0"]),
    ("Drama | Action||", ["Drama", "Action"]),
    (["A", None, "", float("nan")], ["A"]),
    (["A|B", 3.0], ["A|B", "3"]),
    (pd.Timestamp("2024-01-05"), ["2024-01-05 00:00:00"]),
    (pd.Timestamp("2024-01-05 01:00", tz="Europe/Paris"), ["2024-01-05 00:00:00"]),
    (np.datetime64("2024-01-05T00:00:00.5"), ["2024-01-05 00:00:00.500000"]),
    (datetime.date(2024, 1, 5), ["2024-01-05 00:00:00"]),
    *[
        (duration, ["1 day, 1:00:00.500000"])
        for duration in (pd.Timedelta("25:00:00.5"), datetime.timedelta(hours=25, seconds=0.5), np.timedelta64(90000500, "ms"))
    ],
    *[(missing, []) for missing in (None, "", " ", float("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), [])],
]


def test_a_value_has_one_text() -> None:
    for cell, texts in CELLS:
        assert field_texts(cell, "|") == texts, repr(cell)
    assert field_texts("a, b|c", ",") == ["a", "b|c"] and field_texts("a|b", "") == ["a|b"]


def test_values_have_the_texts_of_the_table_that_the_tests_of_the_program_read() -> None:
    lines = (ROOT / "tests" / "data" / "value_texts.tsv").read_text().splitlines()[1:]
    cells = [line.split("\t") for line in lines]
    assert len(cells) > 300
    for kind, field, expected in cells:
        assert value_text(f"\t{field} ") == expected and value_text(expected) == expected, field
        if kind == "number":
            assert value_text(float(field)) == expected == repr(float(field) + 0.0).removesuffix(".0")
            assert value_text(np.float64(field)) == expected
        if kind == "time" and not field.startswith("0"):
            zoned = pd.Timestamp(field)
            assert value_text(zoned) == expected, field
    titles = pa_titles(["25.0", " 1e20", "2024-01-05", None])
    assert titles == ["25.0", "1e20", "2024-01-05", ""]


def pa_titles(texts: list[str | None]) -> list[str]:
    """Returns the titles that are written for the program."""
    pa = pytest.importorskip("pyarrow")
    from vaecf import frames  # pylint: disable=import-outside-toplevel

    return frames.titles(pa.chunked_array([texts]), "titles").to_pylist()


def test_numbers_in_fp32_have_their_shortest_text() -> None:
    for dtype in ("float32", "float16", "Float32", "float64"):
        texts = [field_texts(value, "|") for value in python_values(pd.Series([0.1, None, 3], dtype=dtype))]
        assert texts == [["0.1"], [], ["3"]], dtype


def people() -> pd.DataFrame:
    """Returns the features of 40 users, in columns of every type."""
    users = range(40)
    table = pd.DataFrame({"user": users})
    table["member"] = [user % 3 == 0 for user in users]
    table["since"] = [pd.Timestamp(x) for x in ("2024-01-05", "2024-01-05 00:00:01", None, "2024-02-01 10:00")] * 10
    table["text"] = [" x ", "y|z", "", None] * 10
    table["number"] = [1e20, 1e-7, 3.0, None, 0.1] * 8
    table["single"] = pd.Series([0.1, 2, None, 1e20] * 10, dtype="float32")
    table["tags"] = [["a", "b"], ["a", None], ["a|b"], []] * 10
    table["mixed"] = [7, "7", 2.5, None] * 10
    return table


def test_columns_are_written_for_the_program_with_the_same_texts() -> None:
    pytest.importorskip("pyarrow")
    from vaecf import frames  # pylint: disable=import-outside-toplevel

    table = people()
    table["band"] = pd.cut(table["user"].where(table["user"] != 3), [-1, 10, 40])
    table["month"] = pd.period_range("2024-01", periods=40, freq="M")
    table["after"] = pd.to_timedelta(table["user"], unit="s")
    frame = frames.frame_of(table, "users")
    for name in table:
        text = io.BytesIO()
        frames.write_csv([frame], [(name, "column", frames.features("|"))], text)
        expected = [frames.JOINT.join(field_texts(field, "|")) for field in python_values(table[name])]
        lines = list(csv.reader(io.StringIO(text.getvalue().decode())))
        assert [line[0] if line else "" for line in lines] == ["column", *expected], name


def test_nanoseconds_of_polars_have_the_same_texts_in_training_and_serving() -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    from vaecf import frames  # pylint: disable=import-outside-toplevel

    numbers = polars.Series([1704412800000000123, 5])
    for kind in (polars.Datetime("ns"), polars.Datetime("ns", "Europe/Paris"), polars.Duration("ns")):
        table = polars.DataFrame({"at": numbers.cast(kind)})
        expected = [value_text(value) for value in python_values(table["at"])]
        (rows,) = frames.frame_of(table, "users").rows(["at"])
        assert frames.features("|")(rows["at"], "at").to_pylist() == expected
        assert expected[0] == {True: "19727 days, 0:00:00", False: "2024-01-05 00:00:00.000000123"}[kind == polars.Duration]


@pytest.fixture(name="trained")
def _trained(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Any]]:
    """Returns a function that trains on features of a table, and returns the dataset and the model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VAECF_PROGRAM", workspace.program)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def train(users: Any, features: list[str], **settings: Any) -> tuple[vaecf.Dataset, vaecf.Model]:
        events = pd.DataFrame(
            [(user, user * k % 17) for user in range(40) for k in range(1, 8)], columns=["user", "item"]
        )
        events.to_csv("events.csv", index=False)
        data = vaecf.prepare(
            "events.csv",
            file="people.h5",
            user="user",
            item="item",
            users=users,
            split="random",
            validation_users=5,
            test_users=5,
            settings={
                "data.prepare.user_features": features,
                **{f"data.source.users.{key}": settings[key] for key in settings},
            },
        )
        short = {
            "model.hidden": [8],
            "model.latent": 4,
            "evaluation.metrics": ["ndcg@2"],
            "validation.select": "ndcg@2",
        }
        run = vaecf.train(
            data,
            epochs=1,
            progress=False,
            settings={**short, "data.source.users.value_separator": settings.get("value_separator", "|")},
        )
        return data, run.model()

    return train


def rows_of(data: vaecf.Dataset) -> dict[int, list[int]]:
    """Returns the features of the test users, by user."""
    features = data.test.user_features
    assert features is not None
    return {int(user): sorted(features[row].indices) for row, user in enumerate(data.test.user_id)}


def test_features_of_frames_files_and_tables_are_the_same(trained: Callable[..., tuple[Any, Any]]) -> None:
    pa = pytest.importorskip("pyarrow")
    table, names = people(), ["member", "since", "text", "number", "single", "tags", "mixed"]
    data, model = trained(table, names)
    expected = rows_of(data)
    assert all(expected.values())
    served = [table, table.sample(frac=1, random_state=3)]
    arrow = pa.Table.from_pandas(table.drop(columns="mixed"))
    served.append(arrow.append_column("mixed", pa.array(["7", "7", "2.5", None] * 10)))
    for each in served:
        found = model.user_features_of(each, "user", list(expected))
        assert [sorted(row.indices) for row in found] == list(expected.values())
    pa.parquet.write_table(served[-1], "people.parquet")
    assert rows_of(trained("people.parquet", names)[0]) == expected


def test_numbers_and_times_of_a_csv_are_those_of_a_frame(
    trained: Callable[..., tuple[Any, Any]], workspace: Workspace
) -> None:
    pytest.importorskip("pyarrow")
    random = np.random.default_rng(5)
    table = pd.DataFrame({"user": range(40)})
    table["zero"] = [-0.0, 1e20, 0.0, 1e-7] * 10
    table["number"] = random.uniform(-1, 1, 40) * 10.0 ** random.integers(-8, 25, 40)
    table["fixed"] = random.uniform(-1e6, 1e6, 40).round(2)
    table["day"] = pd.to_datetime("2024-01-05") + pd.to_timedelta(np.arange(40) % 7, unit="D")
    table["time"] = table["day"] + pd.to_timedelta(np.arange(40) * 0.25, unit="s")
    table["zoned"] = table["time"].dt.tz_localize("Europe/Paris")
    names = list(table.columns[1:])
    data, model = trained(table, names)
    expected = rows_of(data)
    assert len({tuple(row) for row in expected.values()}) == len(expected)
    written = table.assign(fixed=table["fixed"].map("{:.4f}".format), number=table["number"].map("{:.17e}".format))
    written.to_csv("people.csv", index=False)
    assert "1.500000" in Path("people.csv").read_text() and ",-0.0," in Path("people.csv").read_text()
    assert rows_of(trained("people.csv", names)[0]) == expected
    exact = pd.read_csv("people.csv", float_precision="round_trip")
    for each in (table, exact, pd.read_csv("people.csv", dtype=str)):
        found = model.user_features_of(each, "user", list(expected))
        assert [sorted(row.indices) for row in found] == list(expected.values())
    # The program reads those of --user-features, written in other ways, by the same rule.
    config = str(model.path.parent.parent / "config.yaml")
    space = Workspace(workspace.program, Path.cwd())
    lists = []
    table.to_csv("others.csv", index=False, date_format="%Y-%m-%dT%H:%M:%S.%f%z")
    for file in ("people.csv", "others.csv"):
        space.call("recommend", config, "--user-features", file, "--output", "out.tsv", "--set", "train.precision=fp32")
        lists.append(Path("out.tsv").read_text())
    assert lists[0] == lists[1]


def test_values_of_fields_and_of_lines_are_those_of_the_program(
    trained: Callable[..., tuple[Any, Any]], workspace: Workspace
) -> None:
    lines = [(user, ["A, B", "A", " C "][user % 3]) for user in range(40)] + [(user, "D") for user in range(0, 40, 2)]
    table = pd.DataFrame(lines, columns=["user", "tags"])
    table.to_csv("people.csv", index=False)
    data, model = trained("people.csv", ["tags"], value_separator=",")
    expected = rows_of(data)
    assert len({len(row) for row in expected.values()}) > 1 and "  20 lines were joined" in data.attributes["report"]
    found = model.user_features_of(table, "user", list(expected))
    assert [sorted(row.indices) for row in found] == list(expected.values())
    # The program reads the values of --user-features by the same rule.
    space = Workspace(workspace.program, Path.cwd())
    config = str(model.path.parent.parent / "config.yaml")
    space.call("recommend", config, "--user-features", "people.csv", "--output", "out.tsv", "--set", "train.precision=fp32")
    theirs = pd.read_csv("out.tsv", sep="\t")
    users = sorted(expected)
    mine = model.recommend(
        np.zeros((len(users), model.n_items)), user_features=model.user_features_of(table, "user", users), users=users, k=3
    )
    for user in users:
        assert (
            theirs.loc[theirs["user"] == user, "item"].tolist()[:3] == mine.loc[mine["user"] == user, "item"].tolist()
        )
    pytest.importorskip("pyarrow")
    assert rows_of(trained(table, ["tags"], value_separator=",")[0]) == expected
    assert "value_separator: ','" in Path("people.yaml").read_text()


def test_lists_give_their_values() -> None:
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"i": [1, 2, 3], "g": [["A", "B"], ["A", None], ["A|B"]]})
    for each in (table, table.to_pandas(), table.to_arrow()):
        fields = python_values(native_column(each, "g"))
        assert [list(field_texts(field, "|")) for field in fields] == [["A", "B"], ["A"], ["A|B"]]


def test_ids_with_the_same_text_are_one_user() -> None:
    lookup = IdLookup.of(np.arange(5), "the items")
    table = pd.DataFrame({"u": [7, "7", "x", 7.0], "i": [0, 2, 1, "3"]})
    matrix, names = read_events(table, "u", "i", lookup, None, None, "first")
    assert matrix.toarray().tolist() == [[1, 0, 1, 1, 0], [0, 1, 0, 0, 0]] and names.tolist() == [7, "x"]
    for only in (["7"], [7, 7], ["7", 7.0]):
        matrix, names = read_events(table, "u", "i", lookup, only, None, "first")
        assert matrix.toarray().tolist() == [[1, 0, 1, 1, 0]] and names.tolist() == [7]
    assert id_text(2.0**53) == str(2**53)
    with pytest.raises(InputError, match="above 2.53 are not exact"):
        id_text(2.0**53 + 2)
    with pytest.raises(InputError, match="above 2.53 are not exact"):
        read_events(table.assign(u=2.0**60), "u", "i", lookup, None, None, "first")


def test_users_that_are_named_twice_get_their_own_list_once(workspace: Workspace) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "ease").model()
    items = model.item_id
    table = pd.DataFrame({0: ["x", "x", "y"], 1: items[[3, 8, 5]]})
    alone = model.recommend(table, user=0, item=1, only=["x"], k=4)
    pd.testing.assert_frame_equal(model.recommend(table, user=0, item=1, only=["x", "x"], k=4), alone)
    both = model.recommend(table, user=0, item=1, only=["y", "x", "y"], k=4)
    assert both["user"].tolist() == ["y"] * 4 + ["x"] * 4
    matrix = model.histories([[items[3], float(items[8])], [items[5]]])
    of_matrix = model.recommend(matrix, users=["x", "y"], only=["x", "x"], k=4)
    pd.testing.assert_frame_equal(of_matrix, alone)
    with pytest.raises(InputError, match="x occurs twice in users"):
        model.recommend(matrix, users=["x", "x"], only=["x"])
    pd.testing.assert_frame_equal(model.similar(float(items[4])), model.similar(items[4]))


def test_tables_with_ambiguous_columns_are_errors(workspace: Workspace) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "ease").model()
    table = pd.DataFrame({"u": ["x"], "i": model.item_id[:1]})
    with pytest.raises(InputError, match="two columns are called 'u'"):
        model.recommend(pd.concat([table, table], axis=1), user="u", item="i")
    with pytest.raises(InputError, match="MultiIndex"):
        model.recommend(pd.concat({"a": table}, axis=1), user="u", item="i")
    with pytest.raises(
        InputError, match="u is not a column of the table; its columns are i; it is in the index: call reset_index"
    ):
        model.recommend(table.set_index("u"), user="u", item="i")


def test_many_reasons_give_no_warning_of_pandas(workspace: Workspace) -> None:
    model = vaecf.Run(workspace.folder / "runs" / "ease").model()
    table = model.recommend(model.histories([model.item_id[:3]]), k=2, reasons=120)
    assert table.shape == (2, 3 + 240) and table["because_3"].notna().all() and table["because_4"].isna().all()
