"""Tests datasets that are made from DataFrames and files; the reference is the program's dataset of a CSV file."""

import datetime
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import vaecf
from vaecf import InputError, cli, wording
from vaecf.yaml_files import flatten

pa = pytest.importorskip("pyarrow")
nw = pytest.importorskip("narwhals.stable.v1")

from vaecf import frames  # pylint: disable=wrong-import-position

COLUMNS = {"user": "user", "item": "item", "rating": "plays", "time": "at"}
RULES = {"duplicates": "sum", "min_rating": 3, "split": "time", "min_user_items": 2}
DATES = ["2026-05-18", datetime.date(2026, 6, 8)]


def events(text: bool = True) -> pd.DataFrame:
    """Returns 4,000 events of 80 users with 40 items."""
    random = np.random.default_rng(7)
    users, items = random.integers(0, 80, 4000), random.integers(0, 40, 4000)
    start = np.datetime64("2026-04-20", "s")
    return pd.DataFrame(
        {
            "other": 0,
            "at": pd.Series(start + random.integers(0, 70 * 86400, 4000)).dt.tz_localize("UTC"),
            "user": [f"u,{user}" for user in users] if text else users,
            "item": [f'the "{item}"' for item in items] if text else items,
            "plays": random.integers(1, 5, 4000),
        }
    )


@pytest.fixture(name="prepare")
def _prepare(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., vaecf.Dataset]:
    """Returns vaecf.prepare for data.h5, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def prepare(source: Any, **arguments: Any) -> vaecf.Dataset:
        return vaecf.prepare(source, **{"file": "data.h5", "program": program, **COLUMNS, **arguments})

    return prepare


def content(data: vaecf.Dataset) -> bytes:
    """Returns the bytes of a dataset, which contain the digest of the text that the program has read."""
    return data.path.read_bytes()


def test_all_kinds_of_frames_give_the_same_dataset(prepare: Callable[..., vaecf.Dataset], tmp_path: Path) -> None:
    table = events()
    data = prepare(table, **RULES, dates=DATES)
    expected = content(data)
    assert data.stages.loc["raw"].tolist() == [4000, 80, 40]
    assert data.stages.loc["sum of each (user, item)", "events"] == len(table.drop_duplicates(["user", "item"]))
    first = table[table["at"] < "2026-05-18"].groupby(["user", "item"])["plays"].sum()
    assert set(data.train_user_id) <= set(table["user"]) and 0 < data.train.nnz <= len(first)

    arrow = pa.Table.from_pandas(table)
    table.to_parquet("events.parquet", row_group_size=1000)
    table[:1500].to_feather("a.feather")
    table[1500:].reset_index(drop=True).to_feather("b.feather")
    (tmp_path / "folder").mkdir()
    table[:1500].to_parquet("folder/part-0.parquet")
    table[1500:].to_parquet("folder/part-1.parquet", index=False)
    codes = table.astype({"user": "category", "item": "category"})
    sources = [arrow, "events.parquet", tmp_path / "events.parquet", ["a.feather", table[1500:]], "folder", codes]
    for source in sources:
        assert content(prepare(source, **RULES, dates=DATES)) == expected
    polars = pytest.importorskip("polars")
    for source in (polars.from_pandas(table), polars.scan_parquet("events.parquet")):
        assert content(prepare(source, **RULES, dates=DATES)) == expected
    assert not [name for name in os.listdir() if name.startswith((".", "data.h5.tmp"))]


def test_dropped_lines_are_a_table_of_reasons(prepare: Callable[..., vaecf.Dataset]) -> None:
    table = events()
    table.loc[[0, 7, 9], "item"] = None
    rules: dict[str, Any] = {"split": "random", "validation_users": 10, "test_users": 10, "duplicates": "sum"}
    with pytest.warns(UserWarning) as found:
        prepare(table, **rules)
    (text,) = [str(warning.message) for warning in found]
    assert text.splitlines()[0] == "3 dropped: the item id is empty"
    assert [line.partition(": '")[0] for line in text.splitlines()[1:]] == [f"  source: row {row}" for row in (0, 7, 9)]
    table.loc[range(100, 112), "plays"] = np.nan
    with pytest.warns(UserWarning) as found:
        prepare(table, **rules)
    (text,) = [str(warning.message) for warning in found]
    lines = [line.partition(", first at ") for line in text.splitlines()]
    assert [line[0] for line in lines] == [
        "some rows are dropped or unusual:",
        "   3 dropped: the item id is empty",
        "  12 dropped: the rating is empty",
    ]
    assert lines[1][2].startswith("source: row 0: ") and lines[2][2].startswith("source: row 100: ")


def test_messages_name_arguments_and_rows(
    prepare: Callable[..., vaecf.Dataset], capsys: pytest.CaptureFixture[str], program: str
) -> None:
    table = events()
    Path("text.h5").write_text("text")
    messages = []
    for source, arguments in (
        (table, {"file": "text.h5"}),
        (table.assign(plays="x"), {}),
        (table, {"rating": None, "duplicates": "sum"}),
        (table, {"time": None, "split": "time"}),
        (table, {"min_user_items": 10**6}),
        ("none.csv", {}),
        ([table, "a.csv"], {}),
        (table, {"settings": {"zzz.y": 1}}),
        (table, {"settings": {"data.prepare.split": "bad"}}),
        (table, {"seed": "x"}),
        (table, {"settings": {"data.prepare.compression": 77}}),
    ):
        with pytest.raises(InputError) as error:
            prepare(source, **arguments)
        messages.append(str(error.value))
    assert not [text for text in messages if any(word in text for word in ("data.source.path", "--", "*", "stdin"))]
    assert "choose another file, or pass replace=True to overwrite it" in messages[0] and "source: row 0: " in messages[1]
    assert "rating=" in messages[2] and "time=" in messages[3] and "lower min_user_items=" in messages[4]
    table.to_parquet("events.parquet")
    options = ["--file", "text.h5", "--user", "user", "--item", "item", "--program", program]
    assert cli.main(["prepare", "events.parquet", *options]) == 2
    assert "choose another file, or pass --replace to overwrite it" in capsys.readouterr().err


def test_columns_may_be_numbers_and_not_ambiguous(prepare: Callable[..., vaecf.Dataset]) -> None:
    table = pd.DataFrame({"user": [1, 1, 2, 2] * 3, "item": [3, 4, 3, 5] * 3, "kind": ["a", "b", "a", "b"] * 3})
    rules: dict[str, Any] = {"rating": None, "time": None, "split": "ratio", "min_user_items": 0}
    expected = prepare(table, **rules)
    train, ids = expected.train, expected.item_id.tolist()
    numbers = table.rename(columns={"user": 1, "item": 0, "kind": 2})
    data = prepare(numbers, user=1, item=0, **rules)
    assert (data.train != train).nnz == 0 and data.item_id.tolist() == ids
    features = {"data.prepare.item_features": [2]}
    data = prepare(numbers, user=1, item=0, items=numbers, title=2, settings=features, **rules)
    assert data.item_title is not None
    assert data.item_title.tolist() == [{3: "a", 4: "b", 5: "b"}[item] for item in data.item_id]
    assert "  2: 2 values" in data.attributes["report"]
    twice = pd.concat([table, table], axis=1)
    with pytest.raises(InputError, match="source: two columns are called 'user'"):
        prepare(twice, **rules)
    with pytest.raises(InputError, match="source: the columns have names of 2 levels .MultiIndex."):
        prepare(pd.concat({"a": table}, axis=1), **rules)
    with pytest.raises(InputError, match="no column 'user'.* in the index: call reset_index"):
        prepare(table.set_index(["user", "item"]), **rules)
    mixed = table.astype({"user": object})
    mixed.loc[[1, 3], "user"] = ["1", "2"]
    assert content(prepare(mixed, **rules)) != b"" and prepare(mixed, **rules).train_user_id.tolist() == [1, 2]


def test_damaged_files_are_named(
    prepare: Callable[..., vaecf.Dataset], program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    events().drop(columns="at").to_parquet("events.parquet", compression="zstd")
    whole = Path("events.parquet").read_bytes()
    Path("events.parquet").write_bytes(whole[:200] + bytes(2000) + whole[2200:])
    with pytest.raises(InputError, match="events.parquet: cannot be read: "):
        prepare("events.parquet", time=None, split="ratio")
    options = ["--file", "data.h5", "--user", "user", "--item", "item", "--split", "ratio", "--program", program]
    assert cli.main(["prepare", "events.parquet", *options]) == 2
    assert "vaecf: events.parquet: cannot be read: " in capsys.readouterr().err
    assert os.listdir() == ["events.parquet"]


def test_program_makes_the_same_of_a_text_file(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`vaecf_dist prepare FILE --file` is vaecf.prepare: the same bytes, and a configuration with the same values."""
    monkeypatch.chdir(tmp_path)
    table = events(text=False).drop(columns="at")
    folder = Path("folder")
    folder.mkdir()
    table.to_csv("events.csv", index=False)
    table.to_csv("events.tsv", index=False, sep="\t")
    table.to_json("events.jsonl", orient="records", lines=True)
    table.to_csv(folder / "part.tsv.gz", index=False, sep="\t")
    table[["item", "other"]].drop_duplicates().to_csv("items.csv", index=False)
    for source in ("events.csv", "events.tsv", "events.jsonl", "folder"):
        given: dict[str, Any] = {"user": "user", "item": "item", "rating": "plays", "items": "items.csv", "title": "other"}
        given |= {"min_rating": 2, "split": "ratio", "seed": 5}
        options = [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value))]
        results = []
        for maker in ("program", "python"):
            if maker == "program":
                command = [program, "prepare", source, "--file", "made.h5", *options, "--quiet"]
                subprocess.run(command, check=True, capture_output=True)
            else:
                vaecf.prepare(source, file="made.h5", program=program, **given)
            results.append((Path("made.h5").read_bytes(), flatten(yaml.safe_load(Path("made.yaml").read_text()))))
            Path("made.h5").unlink()
        assert results[0][0] == results[1][0] and results[0][1] == results[1][1], source
        assert results[0][1]["data.source.path"] == str(tmp_path / source)


def test_command_has_the_options_of_the_program(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        cli.main(["prepare", "--help"])
    texts = [capsys.readouterr().out, subprocess.run([program, "prepare", "--help"], check=True, capture_output=True, text=True).stdout]
    own, other = (set(re.findall(r"^  (?:(-\w), ?)?(--[a-z-]+)", text, re.MULTILINE)) for text in texts)
    assert ("-q", "--quiet") in other and ("", "--item-features") in other
    assert own - other == {("", "--program")} and other <= own


def test_command_and_program_make_the_same(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same arguments give the same bytes, configuration, table and messages."""
    monkeypatch.chdir(tmp_path)
    table = events(text=False).drop(columns="at")
    table.to_csv("events.csv", index=False)
    (tmp_path / "bad.csv").write_text((tmp_path / "events.csv").read_text() + "0,7\n")
    for name in ("item", "user"):
        ids = sorted(table[name].unique())
        columns = {name: ids, "title": [f"T{each}" for each in ids], "kind": [f"k{each % 3}|k4" for each in ids], "size": ids}
        pd.DataFrame(columns).to_csv(f"{name}s.csv", index=False)
    made, config = Path("made.h5"), Path("made.yaml")

    def both(*arguments: str, code: int = 0) -> str:
        """Returns the messages of the program, which are those of the command."""
        before, results = made.read_bytes() if made.exists() else None, []
        for run in (
            lambda each: subprocess.run([program, *each], check=False).returncode,
            lambda each: cli.main([*each, "--program", program]),
        ):
            if before is not None:
                made.write_bytes(before)
            assert run(["prepare", *arguments, "--file", "made.h5", "--split", "ratio"]) == code
            output = capfd.readouterr()
            kept = made.read_bytes() if made.exists() else None
            # The command names itself, and vaecf.prepare for the commands that make datasets.
            err = output.err.replace("`vaecf_dist prepare` or `vaecf_dist synthesize`", "vaecf.prepare")
            said = sorted(re.sub("^vaecf(_dist)?: ", "", err, flags=re.MULTILINE).splitlines())
            results.append((kept, flatten(yaml.safe_load(config.read_text())) if config.exists() else None, output.out, said))
            if before is None:
                made.unlink(missing_ok=True)
        assert results[0] == results[1], arguments
        if before is None and results[0][0] is not None:
            made.write_bytes(results[0][0])
        return "\n".join(results[0][3])

    items, users = ["--items", "items.csv", "--title", "title"], ["--users", "users.csv"]
    for options in (
        items,
        [*items, "--item-features", "kind,size"],
        [*users, "--user-features", "kind", "--user", "user", "-v"],
    ):
        made.unlink(missing_ok=True)
        assert "wrote made.yaml, with which the other commands work" in both("events.csv", *options)
        assert "made.h5 is up to date" in both("events.csv", *options)
        assert "wrote made.h5" in both("events.csv", *options, "--force")
    assert vaecf.Dataset(made).attributes["user_features_of"] == "kind"
    made.unlink()
    assert both("events.csv", "--quiet") == ""
    assert "dropped" in both("bad.csv", "-q", "--force")
    made.unlink()
    assert "bad.csv:4002: " in both("bad.csv", "--strict", code=2)
    made.write_text("text")
    assert "pass --replace to overwrite it" in both("events.csv", code=2)
    both("events.csv", "--replace")
    assert vaecf.Dataset(made).n_items == 40


def test_text_files_are_read_by_the_program(prepare: Callable[..., vaecf.Dataset], tmp_path: Path) -> None:
    table = events()
    expected = prepare(table, **RULES, dates=DATES)
    table["at"] = table["at"].astype("datetime64[ns, UTC]").astype("int64") // 10**9
    table.to_csv("events.csv", index=False)
    table.to_csv("events.tsv", index=False, sep="\t")
    table.to_json("events.jsonl", orient="records", lines=True)
    for file in ("events.csv", "events.tsv", "events.jsonl"):
        data = prepare(file, file="other.h5", **RULES, dates=DATES)
        assert str(data.attributes["source"]).startswith(f"{file} (")
        for part in (data.train, data.test.held_out):
            assert (part.indices == (expected.train if part is data.train else expected.test.held_out).indices).all()
        assert (data.test.user_id == expected.test.user_id).all()
    with pytest.raises(InputError, match="takes one path"):
        prepare(["events.csv", "events.jsonl"])


LAST: dict[str, Any] = {
    "rating": None,
    "time": None,
    "split": "leave_one_out",
    "min_user_items": 0,
    "settings": {"data.prepare.held_out": "last"},
}


def targets(data: vaecf.Dataset) -> dict[Any, Any]:
    """Returns the target of each test user."""
    rows = data.test.held_out
    return dict(zip(data.test.user_id.tolist(), data.item_id[rows.indices].tolist(), strict=True))


def test_files_of_a_folder_are_in_the_order_of_numbers(prepare: Callable[..., vaecf.Dataset], tmp_path: Path) -> None:
    for part in range(1, 12):
        table = pd.DataFrame({"user": [1, 2], "item": [part, 12 - part]})
        for kind in ("parquet", "csv", "jsonl"):
            (tmp_path / kind).mkdir(exist_ok=True)
            (tmp_path / kind / f"_part-{part}").write_text("not a part")
        table.to_parquet(f"parquet/part-{part}.parquet")
        table.to_csv(f"csv/part-{part}.csv", index=False)
        table.to_json(f"jsonl/part-{part}.jsonl", orient="records", lines=True)
    for source in ("parquet", "csv", "jsonl", "parquet/*.parquet", "csv/*.csv", "jsonl/part-*.jsonl", ["parquet"]):
        assert targets(prepare(source, **LAST)) == {1: 11, 2: 1}, source


def test_files_are_recognized_by_their_content(prepare: Callable[..., vaecf.Dataset], tmp_path: Path) -> None:
    table = pd.DataFrame({"user": [1, 1, 2, 2], "item": [7, 8, 8, 7]})
    items = pd.DataFrame({"item": [7, 8], "title": ["A", "B"], "genre": ["x", "y"]})
    users = pd.DataFrame({"user": [1, 2], "land": ["NL", "PE"]})
    settings = {**LAST["settings"], "data.prepare.user_features": ["land"], "data.prepare.item_features": ["genre"]}
    arguments: dict[str, Any] = {**LAST, "title": "title", "settings": settings}
    expected = prepare(table, items=items, users=users, **arguments)
    report, titles = expected.attributes["report"], expected.item_title
    assert "land: 2 values" in report and "genre: 2 values" in report
    assert titles is not None
    for number, ending in enumerate(("parquet.gzip", "parq", "PARQUET", "bin", "ipc", "")):
        names = {}
        for name, each in (("source", table), ("items", items), ("users", users)):
            names[name] = tmp_path / f"{name}{number}.{ending}"
            if ending == "ipc":
                each.to_feather(names[name])
            else:
                each.to_parquet(names[name], compression="gzip")
        data = prepare(names["source"], items=names["items"], users=str(names["users"]), **arguments)
        assert content(data) == content(expected) and data.item_title.tolist() == titles.tolist()
    with pytest.raises(InputError, match=r"none\.parquet: no such file"):
        prepare("none.parquet", **LAST)


def test_arguments_without_effect_are_warnings(prepare: Callable[..., vaecf.Dataset]) -> None:
    table = events()
    for arguments, message in (
        ({"users": pd.DataFrame({"user": ["a"]})}, "users= has no effect without user_features="),
        ({"items": pd.DataFrame({"item": ["a"]})}, "items= has no effect without title= or item_features="),
        ({"settings": {"data.prepare.held_out": "last"}}, "does not use data.prepare.held_out"),
        ({"settings": {"data.source.users.quotes": False}}, "does not use data.source.users.quotes"),
        ({"settings": {"data.source.separator": ";"}}, "data.source.separator in settings= has no effect, since source= is"),
        ({"settings": {"data.source.header": False}}, "data.source.header in settings= has no effect, since source= is"),
        ({"settings": {"data.source.format": "json_lines"}}, "data.source.format in settings= has no effect"),
        (
            {
                "users": pd.DataFrame({"user": table["user"].unique(), "age": 7}),
                "settings": {"data.prepare.user_features": ["age"], "data.source.users.separator": ";"},
            },
            "data.source.users.separator in settings= has no effect, since users= is not a text file",
        ),
        ({"settings": {"data.source.list_starts_with": "count"}}, "does not use data.source.list_starts_with"),
    ):
        with pytest.warns(UserWarning, match=message) as found:
            prepare(table, split="random", validation_users=5, test_users=5, duplicates="sum", **arguments)
        assert len(found) == 1


def test_times_order_repeated_events_in_every_split(prepare: Callable[..., vaecf.Dataset]) -> None:
    table = pd.DataFrame({"user": [1, 1, 1, 2], "item": ["a", "a", "b", "a"], "plays": [1, 5, 5, 5]})
    table["at"] = pd.to_datetime(["2026-05-03", "2026-05-01", "2026-05-01", "2026-05-01"])
    rules = {"split": "random", "validation_users": 0, "test_users": 0, "min_user_items": 0, "min_rating": 4}
    assert prepare(table, duplicates="first", **rules).train.sum() == 3
    assert prepare(table, duplicates="last", **rules).train.sum() == 2
    table.loc[1, "at"] = None
    with pytest.warns(UserWarning, match="the time is empty; the line counts as the last of its user and item"):
        assert prepare(table, duplicates="last", **rules).train.sum() == 3


def test_command_prints_the_counts(
    prepare: Callable[..., vaecf.Dataset], program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    events().to_parquet("events.parquet")
    options = ["--user", "user", "--item", "item", "--split", "ratio", "--program", program, "-q"]
    settings = ["--min-user-items", "2", "--set", "data.prepare.held_out=last"]
    assert cli.main(["prepare", "events.parquet", "--time", "at", "--file", "made.h5", *options, *settings]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("stage ") and "4,000 lines read" in output.out and output.err == ""
    expected = prepare(
        events(), rating=None, split="ratio", min_user_items=2, settings={"data.prepare.held_out": "last"}
    )
    assert vaecf.Dataset("made.h5").attributes["source"] == expected.attributes["source"]
    assert cli.main(["prepare", "none.csv", "--file", "x.h5", *options]) == 2
    assert "none.csv: no such file" in capsys.readouterr().err


def test_columns_of_text_files_are_found_by_usual_names(program: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    named = events().rename(columns={"user": "user_id", "item": "sku"})
    named.to_csv("events.csv")  # with the index of pandas
    with pytest.raises(vaecf.InputError, match="item"):
        vaecf.prepare("events.csv", file="x.h5", program=program)
    named.rename(columns={"sku": "itemId"}).to_csv("events.csv")
    data = vaecf.prepare("events.csv", file="x.h5", program=program)
    expected = vaecf.prepare(named, user="user_id", item="sku", file="y.h5", program=program)
    assert data.stages.equals(expected.stages)
    items = pd.DataFrame({"itemId": sorted(named["sku"].unique()), "title": "t"})
    items.to_csv("items.csv", index=False)
    log: list[str] = []
    data = vaecf.prepare("events.csv", items="items.csv", title="title", file="x.h5", program=program, log=log.append)
    assert data.item_title is not None and set(data.item_title) == {"t"}
    assert any(line.startswith('events.csv: column 3 for "user_id" (by name)') for line in log), log
    for source, tables in ((named, {}), ("events.csv", {"items": items, "title": "title"})):
        with pytest.raises(vaecf.InputError, match="name the columns of ids"):
            vaecf.prepare(source, **tables, file="x.h5", program=program)


def test_columns_of_features_are_arguments_or_options(
    prepare: Callable[..., vaecf.Dataset], program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.DataFrame({"user": [1, 1, 2, 2], "item": [7, 8, 8, 7]})
    items = pd.DataFrame({"item": [7, 8], "genre": ["x", "y"], "year": [1999, 2000]})
    users = pd.DataFrame({"user": [1, 2], "land": ["NL", "PE"]})
    rules = {"rating": None, "time": None, "split": "ratio", "min_user_items": 0}
    keys = {"data.prepare.item_features": ["genre", "year"], "data.prepare.user_features": ["land"]}
    data = prepare(table, items=items, users=users, settings=keys, **rules)
    expected, report = content(data), data.attributes["report"]
    assert "land: 2 values" in report and "year: 2 values" in report
    data = prepare(table, items=items, users=users, item_features=["genre", "year"], user_features="land", **rules)
    assert content(data) == expected
    for name, each in (("table", table), ("items", items), ("users", users)):
        each.to_parquet(f"{name}.parquet")
    options = ["--user", "user", "--item", "item", "--split", "ratio", "--min-user-items", "0", "--program", program]
    tables = ["--items", "items.parquet", "--users", "users.parquet", "--item-features", "genre,year", "--user-features", "land"]
    assert cli.main(["prepare", "table.parquet", "--file", "made.h5", *options, *tables]) == 0
    assert vaecf.Dataset("made.h5").attributes["report"].replace(".made.", ".data.") == report
    capsys.readouterr()
    assert cli.main(["prepare", "table.parquet", "--file", "made.h5", *options, *tables[:4]]) == 0
    assert "--items has no effect without --title or --item-features" in capsys.readouterr().err
    with pytest.raises(InputError, match="settings: data.prepare.user_features is also given by an argument"):
        prepare(table, users=users, user_features="land", settings=keys, **rules)


def test_split_of_three_tables_is_kept(prepare: Callable[..., vaecf.Dataset], program: str) -> None:
    train = pd.DataFrame({"user": ["a", "a", "b", "b", "c"], "item": [1, 2, 1, 3, 2]})
    held = {"validation": pd.DataFrame({"user": ["a"], "item": [3]}), "test": pd.DataFrame({"user": ["b", "a"], "item": [2, 3]})}
    held["test"].to_parquet("test.parquet")
    for test in (held["test"], "test.parquet", [held["test"][:1], held["test"][1:]]):
        data = prepare(train, validation=held["validation"], test=test, rating=None, time=None)
        found = data.test.held_out.tocoo()
        assert {(str(data.test.user_id[u]), int(data.item_id[i])) for u, i in zip(found.row, found.col, strict=True)} == {("b", 2), ("a", 3)}
        assert data.train.sum() == 5 and data.validation.user_id[data.validation.held_out.nonzero()[0]].tolist() == ["a"]
    assert prepare(train, test=held["test"], rating=None, time=None, split="given").test.held_out.sum() == 2
    assert not list(Path().glob("**/train.csv"))
    config = subprocess.run([program, str(data.path.with_suffix(".yaml")), "--print-value", "data.prepare.split"], capture_output=True, text=True, check=False)
    assert config.stdout.strip() == "given", config.stderr
    train.to_csv("events.csv", index=False)
    for arguments, message in (
        ({"split": "random"}, "split='random' divides the events itself; omit it"),
        ({"source": "events.csv"}, "split='given' reads all"),
        ({"test": held["test"].rename(columns={"item": "x"})}, "test: there is no column 'item'"),
    ):
        with pytest.raises(InputError, match=message):
            prepare(**{"source": train, "test": held["test"], "rating": None, "time": None} | arguments)
    with pytest.warns(UserWarning, match="the user id is empty\n  test: row 1: "):
        prepare(train, test=pd.DataFrame({"user": ["a", None], "item": [3, 3]}), rating=None, time=None)


def test_weights_of_age_are_interaction_weights(prepare: Callable[..., vaecf.Dataset]) -> None:
    table = events(text=False)
    rules = {"rating": "weight", "time": None, "duplicates": "sum", "settings": {"data.prepare.interaction_weights": "rating"}}
    age = pd.Timestamp("2026-07-01", tz="UTC") - table["at"]
    table["weight"] = 0.5 ** (age / pd.Timedelta(days=14))
    data = prepare(table, **rules)
    sums = table.groupby(["user", "item"])["weight"].sum()
    expected = sums / sums.groupby("user").transform("mean")
    found = data.train.tocoo()
    ids = list(zip(data.train_user_id[found.row], data.item_id[found.col], strict=True))
    np.testing.assert_allclose(found.data, expected.loc[ids], rtol=1e-5)
    earlier = data.train
    table["weight"] *= 8  # another date
    np.testing.assert_allclose(prepare(table, **rules).train.toarray(), earlier.toarray(), rtol=1e-5)
    rows = pickle.loads(pickle.dumps(earlier[:3]))
    assert rows.item_id.tolist() == data.item_id.tolist() and (rows != earlier[:3]).nnz == 0


def test_decimal_commas_are_read_by_pandas_and_not_taken_for_numbers(prepare: Callable[..., vaecf.Dataset]) -> None:
    lines = [f"{user};{item};{3 + item % 2},5" for user in range(6) for item in range(4)]
    Path("events.csv").write_text("user;item;plays\n" + "\n".join(lines) + "\n")
    rules: dict[str, Any] = {"time": None, "split": "ratio", "min_user_items": 0, "min_rating": 4}
    data = prepare(pd.read_csv("events.csv", sep=";", decimal=","), **rules)
    assert data.n_items == 2 and data.stages.loc["raw", "events"] == 24
    with pytest.raises(InputError, match="'0;0;3,5': the rating is not a number; 24 of 24 lines cannot be read"):
        prepare("events.csv", settings={"data.source.separator": ";"}, **rules)
    Path("points.csv").write_text(Path("events.csv").read_text().replace(",", "."))
    assert prepare("points.csv", settings={"data.source.separator": ";"}, **rules).n_items == 2


def test_folders_of_hive_and_spark_are_read(prepare: Callable[..., vaecf.Dataset]) -> None:
    table = pd.DataFrame({"user": [1, 1, 2, 2, 3, 3], "item": [7, 8, 8, 9, 7, 9], "day": ["2026-01-01"] * 3 + ["2026-01-02"] * 3})
    table["kind"] = ["a b", None] * 3
    rules: dict[str, Any] = {"rating": None, "time": "day", "split": "ratio", "min_user_items": 0}
    expected = prepare(table.sort_values("day", kind="stable"), **rules).train
    table.to_parquet("hive", partition_cols=["day", "kind"])
    assert len(list(Path("hive").glob("day=*/kind=*/*.parquet"))) == 4
    data = prepare("hive", **rules)
    assert data.train.shape == expected.shape and data.train.sum() == expected.sum()
    items = pd.DataFrame({"item": [7, 8, 9], "genre": ["x", "y", "y"]})
    items.to_parquet("items", partition_cols=["genre"])
    assert prepare("hive", items="items", item_features="genre", **rules).attributes["item_features_of"] == "genre"
    by_user = {**rules, "user": "who", "time": None}
    table.rename(columns={"user": "who"}).to_parquet("users", partition_cols=["who"])
    assert sorted(prepare("users", **by_user).train_user_id.tolist()) == [1, 2, 3]
    for folder in ("spark", "spark/_temporary", "spark/.hidden=1"):
        Path(folder).mkdir()
    for number, rows in enumerate((table[:2], table[2:])):
        rows.to_parquet(f"spark/part-0000{number}-c000.snappy.parquet", compression="snappy")
    for other in ("_SUCCESS", "._SUCCESS.crc", ".part-00000-c000.snappy.parquet.crc", "_temporary/x.parquet", ".hidden=1/x.parquet"):
        (Path("spark") / other).write_text("no Parquet")
    assert (prepare("spark", **rules).train != expected).nnz == 0
    with pytest.raises(InputError, match="there is no column 'week'; the columns are user, item, day, kind$"):
        prepare("hive", **{**rules, "user": "week"})


def test_titles_and_features_are_of_tables(prepare: Callable[..., vaecf.Dataset]) -> None:
    items = pd.DataFrame({"item": [f'the "{item}"' for item in range(39)], "unused": [{}] * 39})
    items["title"] = [f"Track {item} | live" for item in range(38)] + [None]
    items["genres"] = [["rock", "pop"]] * 20 + [["jazz"]] * 18 + [None]
    users = pd.DataFrame({"user": [f"u,{user}" for user in range(80)], "age": [10.0] * 40 + [20.0] * 39 + [None]})
    settings = {"data.prepare.item_features": ["genres"], "data.prepare.user_features": ["age"]}
    data = prepare(
        events(),
        items=items,
        users=users,
        title="title",
        settings=settings,
        split="random",
        validation_users=5,
        test_users=9,
    )
    titles = dict(zip(data.item_id, data.item_title, strict=True))
    assert titles['the "3"'] == "Track 3 | live" and titles['the "38"'] == titles['the "39"'] == ""
    assert "genres: 3 values" in data.attributes["report"] and "age: 2 values" in data.attributes["report"]
    assert data.stages.index[0] == "raw" and data.stages.loc["raw", "items"] == 40
    items.to_csv("items.csv", index=False)
    again = prepare(events(), items="items.csv", title="title", split="random", validation_users=5, test_users=9)
    assert dict(zip(again.item_id, again.item_title, strict=True)) == titles
    with pytest.raises(InputError, match="items: there is no column 'name'; the columns are item, unused, title"):
        prepare(events(), items=items, title="name")
    with pytest.raises(InputError, match="give both"):
        prepare(events(), title="title")


def test_configuration_lets_the_command_line_go_on(prepare: Callable[..., vaecf.Dataset], program: str) -> None:
    prepare(events(), **RULES, dates=DATES, file="own.h5", validation_users=np.int64(5))
    text = Path("own.yaml").read_text()
    for part in ("name: own\n", f"  file: {Path('own.h5').absolute()}\n", "path: '-'", "validation_users: 5"):
        assert part in text
    vaecf.program.run_program(["own.yaml", "--quiet", "--set", "train.epochs=1"], program=program)
    assert vaecf.Run("runs/own").config["data.source.user_column"] == "user"
    Path("mine.yaml").write_text("name: mine\n")
    with pytest.raises(InputError, match="was not written by prepare"):
        prepare(events(), file="mine.h5")
    Path("text.h5").write_text("text")
    with pytest.raises(InputError, match="text.h5"):
        prepare(events(), file="text.h5")
    assert Path("text.h5").read_text() == "text" and not Path("text.yaml").exists()


def test_errors_of_the_source_leave_no_dataset(prepare: Callable[..., vaecf.Dataset], monkeypatch: Any) -> None:
    table = events()
    for change, message in (
        ({"user": np.arange(4000) / 2}, "source: column user: ids must be integers or text, got double"),
        ({"item": pd.Timestamp(0)}, "column item: ids must be integers or text, got timestamp"),
        ({"plays": [[]] * 4000}, "column plays: ratings must be numbers"),
        ({"at": True}, "column at: times must be dates or numbers, got bool"),
    ):
        with pytest.raises(InputError, match=message):
            prepare(table.assign(**change), split="random")
    with pytest.raises(InputError, match="no column 'who'; the columns are other, at, user, item, plays"):
        prepare(table, user="who")
    with pytest.raises(InputError, match="source is of type dict"):
        prepare({})
    with pytest.raises(InputError, match="data.prepare.seeds is not a key"):
        prepare(table, settings={"data.prepare.seeds": 1})
    with pytest.raises(InputError, match="seed is also given"):
        prepare(table, seed=1, settings={"data.prepare.seed": 1})

    def failing(columns: list[str]) -> Iterator[Any]:
        yield pa.Table.from_pandas(table).select(columns)
        raise ZeroDivisionError

    frame = frames.Frame("source", list(table.columns), failing)  # a DataFrame of another kind
    monkeypatch.setattr(frames, "frame_of", lambda source, name: frame)
    with pytest.raises(ZeroDivisionError):
        prepare(table, split="random")
    assert os.listdir() == []


def test_warnings_before_an_error_are_warnings(
    prepare: Callable[..., vaecf.Dataset], capsys: pytest.CaptureFixture[str], program: str
) -> None:
    table = events(text=False).assign(at=20200101)
    table.to_csv("events.csv", index=False)
    with pytest.warns(UserWarning, match="of the form YYYYMMDD"), pytest.raises(InputError, match="have the time"):
        prepare(table, split="time", dates=DATES)
    options = ["--file", "a.h5", "--user", "user", "--item", "item", "--time", "at", "--split", "time"]
    assert cli.main(["prepare", "events.csv", *options, "--program", program]) == 2
    assert "\nwarning: all times are whole numbers of the form YYYYMMDD" in capsys.readouterr().err


def test_files_that_cannot_be_made_are_input_errors(prepare: Callable[..., vaecf.Dataset]) -> None:
    Path("file").touch()
    for name in ("file/data.h5", "/proc/data.h5", "da\0ta.h5"):
        with pytest.raises(InputError, match="this file cannot be written: .*; choose another file="):
            prepare(events(), file=name)


def test_bytes_that_are_not_utf8_are_named(prepare: Callable[..., vaecf.Dataset]) -> None:
    for values in ([b"a", b"\xe9"], [[b"a"], [b"\xe9"]]):
        with pytest.raises(InputError, match="users: column name: some values are bytes that are not UTF-8"):
            frames.features("|")(pa.chunked_array([values]), "users: column name")


def test_killed_writer_leaves_no_dataset(program: str, tmp_path: Path) -> None:
    code = (
        "import os, signal, pandas, vaecf; from vaecf import frames\n"
        "table = pandas.DataFrame({'user': range(50), 'item': range(50)})\n"
        "write = frames.write_csv\n"
        "frames.write_csv = lambda *rest: (write(*rest), rest[-1].flush(), os.kill(os.getpid(), signal.SIGKILL))\n"
        "vaecf.prepare(table, file='data.h5', user='user', item='item', split='ratio', min_user_items=0)\n"
    )
    environment = {**os.environ, "VAECF_PROGRAM": program}
    killed = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    time.sleep(0.5)
    assert not (tmp_path / "data.h5").exists()


def test_program_knows_whether_its_input_is_complete(program: str, tmp_path: Path) -> None:
    config = "name: d\ndata: {file: d.h5, source: {format: delimited, path: '-'}, prepare: {split: ratio, min_user_items: 0}}"
    (tmp_path / "d.yaml").write_text(config)
    table = "user,item\n" + "".join(f"{user},{item}\n" for user in range(20) for item in range(5))
    for complete in (False, True):
        done, finished = os.pipe()
        command = [program, "prepare", "d.yaml", "-q"]
        environment = {**os.environ, "VAECF_STDIN_DONE": str(done)}
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(done,), text=True
        ) as process:
            os.close(done)
            if complete:
                os.write(finished, b"1")
            os.close(finished)
            _, said = process.communicate(table)
        assert (process.returncode == 0) is complete is (tmp_path / "d.h5").exists(), said
        assert complete or "stdin: its writer ended before it had written all" in said


def written(convert: Any, values: Any) -> list[Any]:
    """Returns what is written for values."""
    return list(convert(pa.chunked_array([pa.array(values, from_pandas=True)]), "x").to_pylist())


def test_values_are_written_as_the_program_reads_them() -> None:
    assert written(frames.ids, pd.Series([1.0, None, 2.0**53])) == [1, None, 2**53]
    assert written(frames.ids, pa.array([1, None], pa.uint8())) == [1, None]
    assert written(frames.ids, pd.Series(["a", None], dtype="string")) == ["a", None]
    assert written(frames.numbers, [True, None]) == [1, None]
    assert written(frames.numbers, [0.5, float("nan")]) == [0.5, None]
    paris = pd.Series(pd.to_datetime(["2026-07-01 02:00", None])).dt.tz_localize("Europe/Paris")
    assert written(frames.times, paris) == [1782864000, None]
    assert written(frames.times, pd.Series(pd.to_datetime(["2026-07-01"]))) == [1782864000]
    assert written(frames.times, [datetime.date(1969, 12, 31)]) == [-86400]
    assert written(frames.times, pa.array([1500], pa.timestamp("ms"))) == [1.5]
    assert written(frames.times, ["2026-07-01", None]) == ["2026-07-01", None]
    assert written(frames.times, [7, None]) == [7, None]
    assert written(frames.titles, pd.Series([" a|b", None])) == ["a|b", ""]
    assert written(frames.features("|"), pd.Series([25.0, None])) == ["25", ""]
    assert written(frames.features(","), [["a", "b,c"], None, []]) == [f"a{frames.JOINT}b,c", "", ""]
    assert written(frames.features(","), ["a, b", None]) == [f"a{frames.JOINT}b", ""]
    with pytest.raises(InputError, match="control character"):
        written(frames.features("|"), [f"a{frames.JOINT}b"])


@pytest.mark.parametrize(
    ("message", "python", "options"),
    [
        (
            '--set data.prepare.split="bad": data.prepare.split must be one of random, time',
            "split= must be one of random, time",
            "--split must be one of random, time",
        ),
        (
            '--set data.prepare.dates=["2019-01-01", "2020-01-01"]: data.prepare.dates has no effect',
            "dates= has no effect",
            "--dates has no effect",
        ),
        (
            "none.csv: no such file; check the paths in data.source",
            "none.csv: no such file; check source=, items= and users=",
            "none.csv: no such file; check FILE, --items and --users",
        ),
        (
            "data.source.format: delimited with data.prepare.split: random does not use data.prepare.min_rating",
            "this source with split=random does not use min_rating=",
            "this source with --split random does not use --min-rating",
        ),
        (
            "data.prepare.dates: no user has events; the cuts are far; change data.prepare.dates",
            "dates=: no user has events; the cuts are far; change dates=",
            "--dates: no user has events; the cuts are far; change --dates",
        ),
        (
            "data.prepare.split: time requires times; set data.source.time_column",
            "split=time requires times; set time=",
            "--split time requires times; set --time",
        ),
        (
            "a.csv:2: '1,2,31/12/2023': the time is no date; 4 of 4 lines cannot be read; convert the times, or correct "
            "data.source.time_column",
            "a.csv:2: '1,2,31/12/2023': the time is no date; 4 of 4 lines cannot be read; convert the times, or correct time=",
            "a.csv:2: '1,2,31/12/2023': the time is no date; 4 of 4 lines cannot be read; convert the times, or correct --time",
        ),
        (
            "a.csv:1: there is no column 'u', which data.source names; check column names, separator and header in data.source",
            "a.csv:1: there is no column 'u', which user=, item=, rating= or time= names; check the columns, and "
            "data.source.separator and data.source.header in settings=",
            "a.csv:1: there is no column 'u', which --user, --item, --rating or --time names; check the columns, and "
            "data.source.separator and data.source.header with --set",
        ),
        (
            "stdin: the file contains no ratings; check data.source.format, path, separator, header and columns",
            "source: contains no rows; give events",
            "source: contains no rows; give events",
        ),
    ],
)
def test_messages_name_arguments(message: str, python: str, options: str) -> None:
    words = wording.python_words(message, Path("/nowhere"))
    assert words == python
    assert wording.option_words(words) == options
