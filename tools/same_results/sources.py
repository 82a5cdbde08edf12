"""Small files of ratings in each format that `prepare` reads, made from one generated list of events."""

import gzip
import io
import json
import random
import struct
import tarfile
import zipfile

USERS, ITEMS = 90, 40


def make_events():
    """Returns (user, item, rating, time) with items of unequal popularity, ordered by user; each pair occurs once."""
    generator = random.Random(5)
    events = []
    for user in range(1, USERS + 1):
        number = generator.randint(8, 20)
        items = {min(ITEMS, 1 + int(ITEMS * generator.random() ** 1.6)) for _ in range(number)}
        for item in sorted(items, key=lambda item: (item * 7919 + user) % 101):
            events.append((user, item, generator.choice([2, 3, 4, 4, 5, 5]), 1_000_000_000 + 86_400 * generator.randint(0, 900)))
    return events


EVENTS = make_events()


def lines(form, events=None):
    """Returns a line for each event. `form` takes u(ser), i(tem), r(ating) and t(ime)."""
    chosen = EVENTS if events is None else events
    return "".join(form.format(u=user, i=item, r=rating, t=time) + "\n" for user, item, rating, time in chosen).encode()


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content)
    return out.getvalue()


def tarred(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(out.getvalue(), mtime=0)


def users_of(form):
    """Returns a line for each user. `form` takes u(ser), g(ender), a(ge) and o(ccupation)."""
    generator = random.Random(6)
    return "".join(form.format(u=user, g=generator.choice("FM"), a=generator.choice([1, 18, 25, 35, 56]), o=generator.randint(0, 20)) + "\n"
                   for user in range(1, USERS + 1)).encode()


def titles(form):
    return "".join(form.format(i=item) + "\n" for item in range(1, ITEMS + 1)).encode("latin-1")


def netflix(items):
    text = ""
    for item in items:
        text += f"{item}:\n" + "".join(f"{user},{rating},{2000 + time % 6}-0{1 + time % 9}-1{time % 10}\n"
                                         for user, each, rating, time in EVENTS if each == item)
    return text.encode()


def adjacency(numbers, events=None, first_is_count=False):
    """Returns a line with the items of each user."""
    text = ""
    for user in numbers:
        items = [str(item) for each, item, _, _ in (EVENTS if events is None else events) if each == user]
        text += " ".join([str(len(items) if first_is_count else user), *items]) + "\n"
    return text.encode()


def bson_document(elements):
    return struct.pack("<i", len(elements) + 5) + elements + b"\0"


def bson_string(name, text):
    return b"\x02" + name.encode() + b"\0" + struct.pack("<i", len(text) + 1) + text.encode() + b"\0"


def pinterest():
    boards = b""
    for user in range(1, USERS + 1):
        pins = [f"p{item}" for each, item, _, _ in EVENTS if each == user]
        array = bson_document(b"".join(bson_string(str(index), pin) for index, pin in enumerate(pins)))
        boards += bson_document(b"\x07_id\0" + b"123456789012" + bson_string("board_id", f"b{user}") + b"\x04pins\0" + array)
    return boards


def given_parts():
    """Returns train, validation and test events of a given weak split: of each user's items, the last two are held out."""
    parts = [], [], []
    for user in range(1, USERS + 1):
        mine = [event for event in EVENTS if event[0] == user]
        parts[0].extend(mine[:-2])
        parts[1].append(mine[-2])
        parts[2].append(mine[-1])
    return parts


def pro_sg():
    """Returns the folder of the notebook of Mult-VAE: users 0-69 are train users, 70-79 validation, 80-89 test users."""
    files = {"unique_sid.txt": "".join(f"{100 + item}\n" for item in range(ITEMS)).encode()}
    numbered = [(user - 1, item - 1) for user, item, _, _ in EVENTS]

    def table(first, last, keep):
        rows = [(user, item) for user, item in numbered if first <= user < last and keep(item)]
        return b"uid,sid\n" + "".join(f"{user},{item}\n" for user, item in rows).encode()

    files["train.csv"] = table(0, 70, lambda item: True)
    for name, first in (("validation", 70), ("test", 80)):
        files[f"{name}_tr.csv"] = table(first, first + 10, lambda item: item % 4 != 0)
        files[f"{name}_te.csv"] = table(first, first + 10, lambda item: item % 4 == 0)
    return files


def below(folder, files):
    return {f"{folder}/{name}": content for name, content in files.items()}


MOVIELENS_1M = {"ml/ratings.dat": lines("{u}::{i}::{r}::{t}"), "ml/users.dat": users_of("{u}::{g}::{a}::{o}::55{o}"),
                "ml/movies.dat": titles("{i}::Movie No. {i} \xe9 (1999)::Drama|War")}
MALFORMED = (b'user;item;rating;time\n1;2;3;2005-09-06\n1;2;4;2005-09-06\n"1";3;x;2005-09-06\n4;5\n;7;5;2005-01-01\n1;9;5;11\n'
             + lines("{u};{i};{r};2005-09-0{r}"))


def sources():
    """Returns, by the name of a run, the settings of a configuration and the files that it reads."""
    half = EVENTS[: len(EVENTS) // 2], EVENTS[len(EVENTS) // 2 :]
    train, validation, test = given_parts()
    weak = {"data.prepare.split": "given", "data.prepare.min_rating": "0", "data.prepare.validation_users": "1000",
            "data.prepare.test_users": "1000"}
    first_two = {"data.source.user_column": '"0"', "data.source.item_column": '"1"'}
    all_count = {"data.prepare.min_rating": "0"}
    items = range(1, ITEMS + 1)
    by_format = {
        "movielens_csv": ({}, {"ml/ratings.csv": b"userId,movieId,rating,timestamp\r\n" + lines("{u},{i},{r}.0,{t}\r"),
                               "ml/movies.csv": b"movieId,title,genres\n" + titles('{i},"Title, {i}",Drama')}),
        "movielens_dat": ({"data.prepare.user_features": "[gender, age, occupation]"}, MOVIELENS_1M),
        "movielens_100k": ({"data.prepare.user_features": "[age, 2]"},
                           {"ml/u.data": lines("{u}\t{i}\t{r}\t{t}"), "ml/u.user": users_of("{u}|{a}|{g}|job{o}|55{o}"),
                            "ml/u.item": titles("{i}|Title {i} (1995)|01-Jan-1995||http://x|0|1")}),
        "netflix": ({}, {"nf/combined_data_10.txt": netflix(items[20:]), "nf/combined_data_2.txt": netflix(items[:20]),
                         "nf/movie_titles.csv": titles("{i},1999,Title {i}, in parts")}),
        "netflix_tar": ({"data.source.path": "nf.tar.gz"},
                        {"nf.tar.gz": tarred({f"training_set/mv_{item:07}.txt": netflix([item]) for item in reversed(items)})}),
        "lastfm_360k": (all_count | {"data.prepare.user_features": "[gender, country]"},
                        {"fm/usersha1-artmbid-artname-plays.tsv": lines("user{u}\tm-{i}\tartist \"{i}\tx\t{r}").replace(b"\tx\t", b"\t")
                         + lines("user{u}\t\tnameless {i}\t1", EVENTS[::9]),
                         "fm/usersha1-profile.tsv": users_of("user{u}\t{g}\t{a}\tland {o}\tFeb 1, 2007")}),
        "lastfm_2k": (all_count, {"fm/user_artists.dat": b"userID\tartistID\tweight\n" + lines("{u}\t{i}\t{r}"),
                                  "fm/artists.dat": b"id\tname\turl\n" + titles("{i}\tArtist {i}\thttp://x")}),
        "msd": (all_count | {"data.source.path": "msd.zip"}, {"msd.zip": zipped({"train_triplets.txt": lines("u{u}\tSO{i}\t{r}")})}),
        "pinterest": (all_count, {"pin/subset_iccv_board_pins.bson": pinterest()}),
        "adjacency": (all_count, {"ngcf/train.txt": adjacency(range(1, USERS + 1))}),
        "adjacency_count": (all_count | {"data.source.format": "adjacency", "data.source.list_starts_with": "count"},
                            {"cite/users.dat": adjacency(range(1, USERS + 1), first_is_count=True)}),
        "adjacency_given": (weak | {"data.source.format": "adjacency"},
                            below("ngcf", {"train.txt": adjacency(range(1, USERS + 1), train), "test.txt": adjacency(range(1, USERS + 1), test)})),
        "pro_sg": (weak, below("pro_sg", pro_sg())),
        "delimited": (first_two | {"data.source.separator": '";"', "data.source.rating_column": "rating", "data.source.time_column": "time"},
                      {"d/events.csv": MALFORMED}),
        "delimited_given": (weak | first_two | {"data.source.format": "delimited", "data.source.header": "false", "data.source.path": "d/train.csv"},
                            below("d", {"train.csv": lines("{u},{i}", train), "validation.csv": lines("{u},{i}", validation),
                                        "test.csv": lines("{u},{i}", test)})),
        "delimited_pattern": (first_two | {"data.source.format": "delimited", "data.source.header": "false", "data.source.rating_column": '"2"',
                               "data.source.path": '"d/part*.tsv.gz"', "data.source.separator": '"\\t"'},
                              {f"d/part{number}.tsv.gz": gzip.compress(lines("u-{u}\ti\u00e9{i}\t{r}", part), mtime=0)
                               for number, part in enumerate(half, 9)}),
        "json_lines": ({"data.source.user_column": "who", "data.source.item_column": "what", "data.source.rating_column": "stars"},
                       {"j/events.json": b"".join(json.dumps({"who": f"u{user}", "what": item, "stars": rating}).encode() + b"\n"
                                                  for user, item, rating, _ in EVENTS)}),
    }
    chosen = {}
    for name, (settings, files) in by_format.items():
        first = next(iter(files))
        defaults = {"data.source.format": name.removesuffix("_tar"),
                    "data.source.path": first if name in ("delimited", "json_lines") else first.split("/")[0]}
        chosen[name] = (defaults | settings, files)
    return chosen
