"""Reads YAML as vaecf_dist does: with the numbers and booleans of YAML 1.2, in which 3e-4 is a number and off is not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from .errors import InputError


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """A SafeLoader with the numbers and booleans of YAML 1.2."""


_REPLACED = {f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float")}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern, _first in (
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"[-+]?[0-9]+$", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))


def parse_yaml(text: str) -> Any:
    """Returns the content of a YAML text. Throws yaml.YAMLError if it is not valid."""
    return yaml.load(text, _Loader)


def load_yaml(file: str | Path) -> Any:
    """Reads a YAML file. Throws InputError if that is not possible."""
    try:
        return parse_yaml(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """Returns the values of a nested configuration by dotted key."""
    if not isinstance(config, dict):
        return {prefix: config}
    values: dict[str, Any] = {}
    for key, value in config.items():
        values.update(flatten(value, f"{prefix}.{key}" if prefix else str(key)))
    return values


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a nested configuration of values by dotted key."""
    config: dict[str, Any] = {}
    for key, value in values.items():
        section = config
        *path, last = key.split(".")
        for part in path:
            section = section.setdefault(part, {})
        section[last] = value
    return config
