"""The fixed set of runs. A run has a name, files in its folder, and steps, which are commands of the program in that folder.

The data of most runs are those of the run `data`, in ../data. A run that checks a change of results must be added here.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from .sources import EVENTS, MOVIELENS_1M, lines, sources, titles, users_of


@dataclass
class Step:
    """A command: its arguments, the ranks it runs on (1: without mpirun), its exit code and the file that is its standard input."""

    arguments: str
    ranks: int = 1
    emulated: bool = False  # on the emulated GPU
    code: int = 0
    stdin: str = os.devnull


@dataclass
class Run:
    name: str
    steps: list
    files: dict = field(default_factory=dict)
    first: bool = False  # other runs read its results


BASE = {
    "name": "r", "data.file": "../data/plain.h5", "data.virtual_shards": "8", "model.hidden": "[24]", "model.latent": "12",
    "model.elsa.factors": "16", "train.epochs": "2", "train.batch_size": "64", "train.precision": "fp32",
    "train.optimizer.learning_rate": "0.01", "train.annealing.steps": "10", "validation.select": "ndcg@10",
    "evaluation.metrics": "[ndcg@10, recall@5]", "evaluation.baselines": "[popularity]", "run.checkpoint_every": "1", "run.keep_checkpoints": "1",
    "distributed.bucket_mib": "0.02", "watchdog.timeout_seconds": "60",
}
ALL_METRICS = {"evaluation.metrics": "[ndcg@10, recall@5, recall_n@10, hit@10, mrr@10, map@10, precision@10, coverage@10, gini@10, "
                                     "mean_popularity@10, tail_share@10, novelty@10]", "evaluation.baselines": "[auto]"}
CHECKPOINT = "runs/r/checkpoints/best.h5"


def of_model(kind, **settings):
    return {"model.type": kind} | {f"model.{kind}.{key}": str(value) for key, value in settings.items()}


def names_of(section, key):
    """Returns the names that a key lists in the schema of configurations."""
    schema = json.loads((Path(__file__).parents[2] / "configs" / "schema.json").read_text(encoding="utf-8"))
    of_key = schema["properties"][section]["properties"][key]
    return of_key.get("enum") or of_key["items"]["enum"]


KINDS = names_of("model", "type")
BASELINES = names_of("evaluation", "baselines")  # with each model that is solved at once
# Each model with its defaults, and with other values.
TRAINED = {name: of_model(name) for name in KINDS if name not in BASELINES} | {
    "autoencoder_multinomial": of_model("autoencoder", loss="multinomial", activation="tanh", initial_deviation=0.1),
}
SOLVED = {name: of_model(name) for name in KINDS if name in BASELINES} | {
    "ease": of_model("ease", l2="[50, 200]"), "ease_dropout": of_model("ease", l2=100, dropout="[0.2, 0.5]"),
    "ease_user_power": of_model("ease", user_power=0.5, relax=0.3), "ease_kept_weight": of_model("ease", dropout=0.3, kept_weight=0.5),
    "ease_neighbors": of_model("ease", neighbors=30),
    "ease_neighbors_dropout": of_model("ease", neighbors=30, dropout=0.3, l2="[50, 200]"),
    "ease_low_rank": of_model("ease", neighbors=30) | {"model.low_rank.factors": "16", "model.low_rank.power": "0.2"},
    "item_knn_low_rank": of_model("item_knn") | {"model.low_rank.factors": "[8, 16]", "model.low_rank.weight": "[0.2, 0.8]"},
    "item_knn_source": of_model("item_knn", neighbors=20, neighbors_of="source", shrink=5, power=1.5, user_power=0.5),
}
MODELS = TRAINED | SOLVED


class Configuration(dict):
    """The file of a configuration, by key."""


def yaml(settings):
    """Returns a configuration with these keys, as YAML of one line per section."""
    tree = {}
    for key, value in settings.items():
        *parents, last = key.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value

    def flow(node):
        return "{" + ", ".join(f"{key}: {flow(value)}" for key, value in node.items()) + "}" if isinstance(node, dict) else node

    return "".join(f"{key}: {flow(value)}\n" for key, value in tree.items()).encode()


def configured(settings, emulated=False):
    """Returns the file of a configuration for a device."""
    device = {"device": "cuda", "distributed.allow_shared_gpu": "true"} if emulated else {"device": "cpu"}
    keys = BASE | device | settings
    return {"config.yaml": Configuration((key, value) for key, value in keys.items() if value is not None)}


def training(name, settings, ranks=1, emulated=False, then=()):
    """Trains, tests, and runs further steps."""
    where = "emulated" if emulated else "cpu"
    return Run(f"{where}-{ranks}-{name}", [Step("config.yaml -v", ranks, emulated), *then], configured(settings, emulated))


def serving(emulated):
    """Returns the steps that use a trained model."""
    return [
        Step("config.yaml --test --per-user users.h5", emulated=emulated),
        Step("recommend config.yaml --split test --top 5", emulated=emulated),
        Step("recommend config.yaml --top 5 --split all --output all.h5 --set backend.threads=2", emulated=emulated),
        Step(f"similar --checkpoint {CHECKPOINT} --item 3 --item 17 --top 4"),
        Step(f"export {CHECKPOINT} --output model.safetensors"),
        Step(f"export {CHECKPOINT} --output model.onnx"),
        Step(f"inspect -v {CHECKPOINT}"),
        Step("inspect runs/r --metric recall@5"),
    ]


def models():
    for name, settings in MODELS.items():
        for emulated in (False, True):
            yield training(name, settings | ALL_METRICS, 1, emulated, serving(emulated))
        for ranks in (2, 3):
            yield training(name, settings, ranks, then=[Step("recommend config.yaml --split test --output top.tsv", ranks)] if ranks == 2 else [])
        yield training(name, settings, 2, True)
    for name, settings in TRAINED.items():
        bf16 = settings | {"train.precision": "bf16"}
        yield training(f"{name}-bf16", bf16)
        yield training(f"{name}-bf16", bf16, 3)
        yield training(f"{name}-bf16", bf16, 1, True)
        yield training(f"{name}-bf16", bf16, 3, True)


def ranks_and_communication():
    sharded = {"distributed.optimizer_state": "sharded"}
    overlap = {"distributed.overlap": "on"}
    bf16 = {"train.precision": "bf16", "distributed.comm_dtype": "bf16"}
    clip = {"train.clip_gradient_norm": "0.5"}
    for emulated in (False, True):
        yield training("sharded", sharded, 2, emulated)
        yield training("sharded-bf16", sharded | bf16, 3, emulated)
        yield training("sharded-recvae", sharded | TRAINED["recvae"], 2, emulated)
        yield training("overlap", overlap, 2, emulated)
        yield training("overlap-sharded-bf16", overlap | sharded | bf16, 3, emulated)
        yield training("clipping", clip, 1, emulated)
        yield training("clipping-sharded", clip | sharded, 2, emulated)
        yield training("bf16-sums", bf16, 2, emulated)
        for name, settings in TRAINED.items():
            yield training(f"slices-{name}", settings | {"distributed.item_slices": "2"}, 2, emulated)
        yield training("slices-clipping", clip | {"distributed.item_slices": "all"}, 3, emulated)
        yield training("slices-bf16", bf16 | {"distributed.item_slices": "2"}, 4, emulated)
    server = {"distributed.strategy": "parameter_server"}
    yield training("server", server, 2)
    yield training("server-mult_dae", server | TRAINED["mult_dae"], 3)
    yield training("servers-bf16", server | bf16 | {"distributed.parameter_server.servers": "2"}, 3)
    yield training("algorithm-ring", {"distributed.algorithm": "ring"}, 2)


def options_of_training():
    features = {"data.file": "../data/features.h5", "model.history_dropout": "0.1"}
    for emulated in (False, True):
        yield training("features", features, 1, emulated, [Step("recommend config.yaml --split test --top 5", emulated=emulated)])
        yield training("features-bf16", features | {"train.precision": "bf16"}, 2, emulated)
        yield training("features-sharded", features | {"distributed.optimizer_state": "sharded"}, 3, emulated)
        yield training("no-hidden-layers", {"model.hidden": "[]"}, 1, emulated)
        yield training("hidden-layers", {"model.hidden": "[33, 18]", "model.latent": "7", "train.last_batch": "drop"}, 1, emulated)
        yield training("rmsprop", {"train.optimizer.type": "rmsprop", "train.optimizer.momentum": "0.5", "train.weight_decay": "0.01"}, 1, emulated)
        yield training("sgd", {"train.optimizer.type": "sgd", "train.optimizer.momentum": "0.9", "train.batch_size": "480"}, 1, emulated)
        yield training("recvae-beta", of_model("recvae", beta=0.2, encoder_passes=2, decoder_passes=2), 1, emulated)
        yield training("deterministic", {"train.deterministic": "true", "train.weight_decay": "0.01"}, 1, emulated)
    yield training("portable", {"backend.kernels": "portable"})
    yield training("threads", {"backend.threads": "2", "validation.select": "last", "train.annealing.steps": None, "train.annealing.epochs": "2"})
    yield training("patience", {"train.epochs": "6", "train.patience": "1", "train.optimizer.learning_rate": "1.0", "validation.every": "2"})
    for precision in ("fp16", "tf32", "bf16x3"):
        yield training(precision, {"train.precision": precision}, 1, True)
    yield training("fp16-ranks", {"train.precision": "fp16", "distributed.optimizer_state": "sharded"}, 2, True)
    yield training("no-graph", {"backend.cuda_graph": "off", "train.precision": "bf16"}, 1, True)
    yield training("host-rows", {"backend.resident": "off"}, 1, True)


def continued_runs():
    """Resumes within an epoch, and starts from the weights of another run."""
    steps = {"run.checkpoint_every": "{steps: 3}", "run.keep_checkpoints": "100"}
    start = f"config.yaml -v --set name=s --set data.file=../data/other.h5 --start-from {CHECKPOINT}"
    resumed = "config.yaml -v --resume runs/r/checkpoints/step-00000003.h5"
    for emulated in (False, True):
        yield training("resume", steps, 1, emulated, [Step(resumed, emulated=emulated)])
        yield training("resume-sharded", steps | {"distributed.optimizer_state": "sharded"}, 2, emulated, [Step(resumed, 3, emulated)])
        yield training("resume-recvae", steps | TRAINED["recvae"] | {"train.precision": "bf16"}, 1, emulated, [Step(resumed, emulated=emulated)])
        yield training("start", {}, 1, emulated, [Step(start, emulated=emulated)])
        yield training("start-slices", {"distributed.item_slices": "2"}, 2, emulated, [Step(start, 2, emulated)])
    yield training("resume-server", steps | {"distributed.strategy": "parameter_server"}, 3, then=[Step(resumed, 3)])
    yield training("resume-auto", steps, 2, then=[Step("config.yaml --resume auto --set train.epochs=3", 2)])
    yield training("start-recvae", TRAINED["recvae"], 1, then=[Step(start)])


FILTERS = {"data.file": "data.h5", "data.prepare.split": "liang2018", "data.prepare.min_rating": "4", "data.prepare.min_user_items": "3",
           "data.prepare.feature_buckets": "16"}


def preparing():
    held_out = FILTERS | {"data.prepare.validation_users": "12", "data.prepare.test_users": "12"}
    all_users = {"validation_users": "1000", "test_users": "1000"}
    steps = [Step("prepare config.yaml -v"), Step("inspect -v data.h5"), Step("prepare config.yaml")]
    for name, (settings, files) in sources().items():
        yield Run(f"prepare-{name}", steps, configured(held_out | settings) | files)
    splits = {
        "random": {}, "leave_one_out": {"held_out": "last"} | all_users,
        "stable": {"validation_fraction": "0.1", "test_fraction": "0.1", "validation_users": None, "test_users": None},
        "ratio": {"held_out_fraction": "0.3"} | all_users, "time": {}, "time-dates": {"split": "time", "dates": "[2003-01-01, 2003-09-01]"},
        "filters": {"split": "liang2018", "min_item_users": "10", "repeat_filters": "true", "compression": "4", "seed": "7"},
    }
    for name, keys in splits.items():
        settings = {f"data.prepare.{key}": value for key, value in ({"split": name} | keys).items()}
        settings |= {"data.source.format": "movielens_dat", "data.source.path": "ml"}
        yield Run(f"split-{name}", steps, configured(held_out | settings) | MOVIELENS_1M)
    doubled = {"ml/ratings.dat": lines("{u}::{i}::{r}::{t}") + lines("{u}::{i}::1::{t}", EVENTS[::3])}
    for which in ("last", "sum", "max"):
        settings = {"data.source.format": "movielens_dat", "data.source.path": "ml", "data.prepare.duplicates": which}
        yield Run(f"duplicates-{which}", steps, configured(held_out | settings) | doubled)
    for which, split in {"rating": "liang2018", "log1p": "time"}.items():
        settings = {"data.source.format": "movielens_dat", "data.source.path": "ml", "data.prepare.duplicates": "sum",
                    "data.prepare.interaction_weights": which, "data.prepare.split": split}
        yield Run(f"weights-{which}", steps, configured(held_out | settings) | doubled)
    delimited = sources()["delimited"]
    yield Run("prepare-strict", [Step("prepare config.yaml --strict", code=2)], configured(held_out | delimited[0]) | delimited[1])
    piped = {"data.source.path": '"-"', "data.source.items.path": "titles.csv", "data.source.items.title_column": "title"}
    yield Run("prepare-stdin", [Step("prepare config.yaml -v", stdin="d/events.csv"), Step("inspect -v data.h5")],
              configured(held_out | delimited[0] | piped) | delimited[1] | {"titles.csv": b"item,title\n" + titles("{i},Title {i}")})


def recommending():
    """Prepares ratings with features and titles, trains, and recommends in every way."""
    settings = FILTERS | {"data.source.format": "movielens_dat", "data.source.path": "ml", "data.prepare.user_features": "[gender, age]",
                          "data.prepare.validation_users": "10", "data.prepare.test_users": "10"}
    files = MOVIELENS_1M | {"new.csv": b"user,item\nann,3\nann,5\nbob,3\nbob,999\ncy,8\n", "users.dat": users_of("{u}::{g}::{a}::{o}::1"),
                            "some.txt": b"1\n2\n3\n4\n7\n", "none.txt": b"2\n"}
    kinds = "".join(f"{item},1999,{('a|b', 'b', 'c', '')[item % 4]}\n" for item in range(1, 100))
    files["kinds.csv"] = f"item,year,kinds\n{kinds}".encode()
    ways = ["--split test --titles --output top.csv", "--split train --keep-seen --output top.jsonl", "--split validation --output top.json",
            "--input new.csv", "--input new.csv --format jsonl", "--user-features users.dat --top 3", "--split all --user 5 --user 7",
            "--split test --include some.txt --exclude none.txt", "--split test --at-most kinds.csv 2 --category-column kinds", "--split all --users some.txt --output top.h5"]
    steps = [Step("prepare config.yaml"), Step("config.yaml"), *[Step(f"recommend config.yaml {way}") for way in ways],
             Step("recommend config.yaml --split all --output ranks.tsv", 3), Step(f"similar --checkpoint {CHECKPOINT} --item 3 --titles --output like.tsv"),
             Step("evaluate data.h5 --lists top.csv --metrics ndcg@10,coverage@10 --per-user users.h5"),
             Step("evaluate data.h5 --lists top.json --split validation"), Step("inspect runs/r --finished")]
    yield Run("recommend", steps, configured(settings) | files)
    plays = {"plays.csv": b"user,item,n\nann,3,1\nann,5,20\nbob,3,4\nann,3,2\ncy,8,7\n"}
    steps = [Step("prepare config.yaml"), Step("config.yaml"), Step("recommend config.yaml --input plays.csv --interaction-weight-column n --reasons 2"),
             Step("recommend config.yaml --input plays.csv"), Step("recommend config.yaml --split all --output all.tsv", 2),
             Step(f"export {CHECKPOINT} --output model.onnx")]
    yield Run("recommend-weights", steps, configured(settings | {"data.prepare.interaction_weights": "log1p", "data.prepare.duplicates": "sum"}) | files | plays)
    of_items = {"data.prepare.user_features": None, "data.prepare.item_features": "[genres]", "data.prepare.new_item_fraction": "0.2", "evaluation.baselines": "[popularity, ease]"}
    genres = {"ml/movies.dat": "".join(f"{item}::Title {item}::{'Drama|War' if item % 2 else 'Comedy'}\n" for item in range(1, 100)).encode()}
    for name, model in {"ease": {}, "ease_neighbors": {"model.ease.neighbors": "5"}, "mult_vae": {"model.type": "mult_vae"}}.items():
        model = {"model.type": "ease", "model.ease.l2": "50", "model.ease.feature_weight": "[0, 20]"} | model
        steps = [Step("prepare config.yaml"), Step("config.yaml -v", 2), Step("config.yaml --test --per-user users.h5"), Step("recommend config.yaml --split test --include some.txt")]
        yield Run(f"item-features-{name}", steps, configured(settings | of_items | model) | files | genres)
    several = {"data.prepare.user_features": "[tags]", "data.prepare.item_features": "[kinds]", "data.source.users.path": "tags.csv", "data.source.items.path": "kinds.csv",
               "data.source.users.value_separator": '","', "data.source.items.value_separator": '"/"'}
    tables = {"tags.csv": b"user,tags\n1,A\n2,\"A, B\"\n1,C\n3,B|C\n", "kinds.csv": b"item,kinds\n1,A/B\n2,A\n1,C\n"}
    yield Run("features-joined", [Step("prepare config.yaml"), Step("inspect -v data.h5")], configured(settings | several) | files | tables)


def texts():
    helps = ["--help", "--help-config", "--version", *[f"{name} --help" for name in
             ("prepare", "synthesize", "recommend", "evaluate", "similar", "inspect", "export", "doctor")]]
    yield Run("help", [*[Step(each) for each in helps], Step("config.yaml --print-config")], configured({}))
    errors = ["config.yaml --set train.batch_sise=3", "config.yaml --set train.epochs=0", "config.yaml --set data.file=none.h5",
              "config.yaml --set model.type=vae", "config.yaml --resume auto --start-from x.h5", "none.yaml", "inspect config.yaml",
              "recommend config.yaml", "config.yaml --set train.precision=fp16", "--nothing"]
    yield Run("errors", [*[Step(each, code=2) for each in errors], Step("config.yaml --set distributed.item_slices=5", 2, code=2)], configured({}))


def data():
    shape = "--interactions-per-user 15 --validation-users 50 --test-users 50 --quiet"
    return Run("data", [
        Step(f"synthesize plain.h5 --users 500 --items 300 {shape}"), Step(f"synthesize features.h5 --users 400 --items 280 --user-columns 3 {shape}"),
        Step(f"synthesize other.h5 --users 300 --items 330 --seed 5 --compression 3 --tastes 8 {shape}"),
        Step("inspect -v plain.h5"), Step("inspect -v features.h5"),
    ], first=True)


def all_runs():
    groups = (models(), ranks_and_communication(), options_of_training(), continued_runs(), preparing(), recommending(), texts())
    return [data(), *[run for group in groups for run in group]]
