"""The JSON Schema of configurations, `vaecf_dist --config-schema`, which editors read as configs/schema.json."""

import json
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

jsonschema = pytest.importorskip("jsonschema", reason="needs python3-jsonschema (the group python of launch/packages)")

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.fixture(name="validator", scope="module")
def _validator() -> Any:
    schema = json.loads((CONFIGS / "schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def _accepts(program: str, text: str) -> bool:
    command = [program, "/dev/stdin", "--print-config"]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("path", [*CONFIGS.glob("*.yaml"), *CONFIGS.glob("models/*.yaml")], ids=lambda path: path.stem)
def test_configurations_fit(validator: Any, path: Path) -> None:
    validator.validate(yaml.safe_load(path.read_text()))


def test_defaults_of_all_keys_fit(validator: Any, program: str) -> None:
    text = subprocess.run([program, "--help-config"], text=True, capture_output=True, check=True).stdout
    validator.validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    "text",
    [
        "train:",
        "model: {ease: {l2: 200, dropout: [0, 0.5], search: standard}, hidden: []}",
        "model: {recvae: {beta: null, prior_weights: [0.5, 0.3, 0.2]}, item_knn: {target_power: auto}}",
        "data: {source: {format: delimited, rating_column: 3}, prepare: {dates: ['2015-01-01', '2016-01-01']}}",
        "train: {annealing: {epochs: 30}, clip_gradient_norm: null, seed: 18446744073709551615}",
        "evaluation: {metrics: ndcg@100, baselines: auto}\nvalidation: {select: last}",
        "evaluation: {metrics: [ndcg@10, coverage@20], baselines: [popularity, ease]}\nvalidation: {select: ndcg@10}",
        "run: {checkpoint_every: never}",
        "run: {checkpoint_every: auto}",
        "run: {checkpoint_every: {minutes: 1.5}}",
        "distributed: {item_slices: all, parameter_server: {servers: 2}}",
    ],
)
def test_schema_and_program_accept(validator: Any, program: str, text: str) -> None:
    validator.validate(yaml.safe_load(text))
    assert _accepts(program, text)


@pytest.mark.parametrize(
    "text",
    [
        "train: {batch_sise: 500}",
        "trian: {epochs: 2}",
        "train: 5",
        "train: {batch_size: many}",
        "train: {batch_size: 2.5}",
        "train: {batch_size: 0}",
        "train: {batch_size: }",
        "data: {virtual_shards: 3000000000}",
        "train: {precision: int8}",
        "train: {deterministic: 1}",
        "train: {clip_gradient_norm: 1.0e-30}",
        "train: {annealing: {steps: 5, epochs: 7}}",
        "model: {dropout: 1.0}",
        "model: {type: vae}",
        "model: {hidden: 600}",
        "model: {hidden: [600, 0]}",
        "model: {ease: {user_power: 3}}",
        "model: {ease: {user_power: [0, 3]}}",
        "model: {ease: {l2: []}}",
        "model: {recvae: {beta: 0}}",
        "model: {recvae: {prior_weights: [0.5, 0.5]}}",
        "model: {item_knn: {target_power: off}}",
        "data: {source: {format: none}}",
        "data: {source: {user_column: ''}}",
        "data: {prepare: {seed: 4294967296}}",
        "data: {prepare: {time_quantiles: [0.5, 1.0]}}",
        "name: a/b",
        "name: ..",
        "evaluation: {metrics: []}",
        "evaluation: {metrics: ndcg}",
        "evaluation: {metrics: [ndcg@100, ndcg@100]}",
        "evaluation: {baselines: [ndcg]}",
        "evaluation: {baselines: elsa}",
        "validation: {select: first}",
        "run: {checkpoint_every: often}",
        "run: {checkpoint_every: {steps: 5, minutes: 7}}",
    ],
)
def test_schema_and_program_refuse(validator: Any, program: str, text: str) -> None:
    assert not validator.is_valid(yaml.safe_load(text))
    assert not _accepts(program, text)


RENAMES = runpy.run_path(str(CONFIGS.parent / "tools" / "same_results" / "renames.py"))
RENAMED = RENAMES["KEYS"]


@pytest.mark.parametrize("old", RENAMED)
def test_old_names_are_refused_with_the_new_one(program: str, old: str) -> None:
    command = [program, "/dev/null", "--set", f"{old}=1", "--print-config"]
    refused = subprocess.run(command, text=True, capture_output=True, check=False)
    assert refused.returncode == 2 and f"{old} is not a key; it is {RENAMED[old]}\n" in refused.stderr


def test_no_old_name_is_a_key(program: str) -> None:
    text = subprocess.run([program, "/dev/null", "--print-config"], text=True, capture_output=True, check=True).stdout
    reference = subprocess.run([program, "--help-config"], text=True, capture_output=True, check=True).stdout
    for keys in (_paths(yaml.safe_load(text)), _paths(yaml.safe_load(reference))):
        assert "evaluation.metrics" in keys and not keys & set(RENAMED)


def test_no_old_name_is_in_the_documentation_and_the_scripts() -> None:
    root = CONFIGS.parent
    files = [root / "README.md", *root.glob("docs/*.md"), *CONFIGS.glob("**/*.yaml"), *root.glob("launch/*"), *root.glob("launch/slurm/*")]
    old = re.compile(r"(?<![\w.])(" + "|".join(re.escape(name) for name in RENAMED) + r")(?![\w.]*\w)")
    found = {
        f"{path}: {match[0]}"
        for path in files
        if path.is_file() and path.suffix in ("", ".md", ".yaml", ".sh", ".sbatch")
        for match in old.finditer(path.read_text(encoding="utf-8"))
        if match[0] in RENAMED
    }
    assert not found


def test_results_of_an_older_program_get_the_new_names() -> None:
    """tools/same-results compares them; the metrics of events are in the order of their new names."""
    for old, new in (
        ("/popularity/tail@20", "/popularity/tail_share@20"),
        ("/train/weights", "/train/interaction_weights"),
        ("/item", "/item_index"),
        ("/@features_of", "/@user_features_of"),
        ("/weights/items/data", "/weights/items/data"),
    ):
        assert RENAMES["to_new_path"](old) == RENAMES["to_new_path"](new) == new
    old_event = RENAMES["with_plain_metrics"]({"mrr@5": 1, "popularity@5": 2})
    new_event = RENAMES["with_plain_metrics"]({"metrics": {"mean_popularity@5": {"value": 2}, "mrr@5": {"value": 1}}})
    assert [RENAMES["to_new_field"](name) for name in old_event] == list(new_event)


def test_texts_of_an_older_program_get_the_form_of_the_new_ones() -> None:
    """Its names are longer or shorter, so that columns have other widths, and sorted names another order."""
    old = ["  metric      model", "  ndcg@5     0.1 +- 0.2", "  tail@5     0.3"]
    new = ["  metric           model", "  ndcg@5          0.1 +- 0.2", "  tail_share@5    0.3"]
    in_one_form = ["metric model", "ndcg@5 0.1 +- 0.2", "tail_share@5 0.3"]
    assert RENAMES["in_one_form"](old) == RENAMES["in_one_form"](new) == in_one_form
    lines = ["epoch 1  ndcg@5 0.1  popularity@5 7.0", "epoch 1  mean_popularity@5 7.0  ndcg@5 0.1"]
    assert RENAMES["in_one_form"](lines[:1]) == RENAMES["in_one_form"](lines[1:])
    assert RENAMES["in_one_form"](["ndcg@5, popularity@5"]) == ["mean_popularity@5, ndcg@5"]
    assert RENAMES["in_one_form"](["  train/features  3", "  holdout: last"]) == ["train/user_features 3", "held_out: last"]
    stored = ["  best: 1", "  configuration:", "    model:", "      features: auto", *[f"      k{n}: {n}" for n in range(8)]]
    assert RENAMES["in_one_form"](stored)[-1] == "model.user_features: auto"
    assert RENAMES["in_one_form"](["ndcg@5 0.1"]) != RENAMES["in_one_form"](["ndcg@5 0.2"])


def _paths(tree: dict[str, Any], before: str = "") -> set[str]:
    """Returns the dotted names of all keys and sections."""
    below = [_paths(value, f"{before}{key}.") for key, value in tree.items() if isinstance(value, dict)]
    return {f"{before}{key}" for key in tree}.union(*below)
