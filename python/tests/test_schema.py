"""The JSON Schema of configurations, `vaecf_dist --config-schema`, which editors read as configs/schema.json."""

import json
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
        "train: {annealing: {epochs: 30}, clip_gradient_norm: 0, seed: 18446744073709551615}",
        "validation: {metrics: ndcg@100, select: last, baselines: auto}",
        "validation: {metrics: [ndcg@10, coverage@20], select: ndcg@10, baselines: [popularity, ease]}",
        "run: {checkpoint_every: 0}",
        "run: {checkpoint_every: auto}",
        "run: {checkpoint_every: {minutes: 1.5}}",
        "distributed: {item_slices: all, servers: 2}",
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
        "validation: {metrics: []}",
        "validation: {metrics: ndcg}",
        "validation: {metrics: [ndcg@100, ndcg@100]}",
        "validation: {baselines: [ndcg]}",
        "validation: {baselines: elsa}",
        "validation: {select: first}",
        "run: {checkpoint_every: often}",
        "run: {checkpoint_every: {steps: 5, minutes: 7}}",
    ],
)
def test_schema_and_program_refuse(validator: Any, program: str, text: str) -> None:
    assert not validator.is_valid(yaml.safe_load(text))
    assert not _accepts(program, text)
