"""The keys of a configuration that `vaecf sweep` searches, and their values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InputError
from .yaml_files import load_yaml

Value = bool | int | float | str


@dataclass(frozen=True)
class Parameter:
    """A key with the values to search: a range, inclusive at both ends, or a list of choices."""

    key: str
    choices: tuple[Value, ...] = ()
    low: float = 0.0
    high: float = 0.0
    integer: bool = False
    log: bool = False
    step: float | None = None

    def suggest(self, trial: Any) -> Value:
        """Returns the value that Optuna chooses for `trial`."""
        value: Value
        if self.choices:
            value = trial.suggest_categorical(self.key, list(self.choices))
        elif self.integer:
            value = trial.suggest_int(self.key, int(self.low), int(self.high), step=int(self.step or 1), log=self.log)
        else:
            value = trial.suggest_float(self.key, self.low, self.high, step=self.step, log=self.log)
        return value

    def in_range(self, value: Any) -> Value | None:
        """Returns the value of a configuration, a number or a list of one, or None if it is not in the range."""
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not self.low <= value <= self.high:
            return None
        if self.step is not None and abs((value - self.low) / self.step - round((value - self.low) / self.step)) > 1e-9:
            return None
        return int(value) if self.integer else float(value)

    def holds_all(self, value: Any) -> bool:
        """Returns whether a value of a configuration is a list of several values, all in the range."""
        is_list = not self.choices and isinstance(value, list) and len(value) > 1
        return is_list and all(self.in_range(each) is not None for each in value)

    def extremes(self) -> list[Value]:
        """Returns the ends of the range, or all choices."""
        ends = [self.low, self.high]
        return list(self.choices) or ([int(end) for end in ends] if self.integer else list(ends))


def scalar(value: Any) -> Value:
    """Returns a number, a boolean, or anything else as the text that follows --set KEY=."""
    if isinstance(value, (bool, int, float, str)):
        return value
    return "null" if value is None else json.dumps(value)


def text_of(value: Value) -> str:
    """Returns the text that follows --set KEY= for `value`."""
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _parameter(where: str, key: str, entry: Any) -> Parameter:
    if not isinstance(entry, dict) or ("range" in entry) == ("choices" in entry):
        raise InputError(f"{where}: must be {{range: [low, high]}} or {{choices: [a, b, ...]}}, got {entry!r}")
    unknown = sorted(set(entry) - {"range", "choices", "log", "step"}, key=str)
    if unknown:
        raise InputError(f"{where}: {unknown[0]} is not one of range, choices, log, step")
    if "choices" in entry:
        choices = entry["choices"]
        if not isinstance(choices, list) or not choices or len(entry) > 1:
            raise InputError(f"{where}: choices must be a list, without log and step, got {entry!r}")
        return Parameter(key, choices=tuple(scalar(choice) for choice in choices))
    ends = entry["range"] if isinstance(entry["range"], list) else []
    numbers = all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in ends)
    if len(ends) != 2 or not numbers or ends[0] > ends[1]:
        raise InputError(f"{where}: range must be two numbers [low, high], got {entry['range']!r}")
    log, step = entry.get("log", False), entry.get("step")
    if not isinstance(log, bool):
        raise InputError(f"{where}: log must be true or false, got {log!r}")
    if log and (ends[0] <= 0 or step is not None):
        raise InputError(f"{where}: log requires a range above 0 and no step")
    integer = all(isinstance(end, int) for end in ends)
    valid = step is None or (isinstance(step, (int, float)) and not isinstance(step, bool) and step > 0 and (not integer or step == int(step)))
    if not valid:
        raise InputError(f"{where}: step must be greater than 0, and an integer in a range of integers, got {step!r}")
    return Parameter(key, low=ends[0], high=ends[1], integer=integer, log=log, step=step)


def read_search(file: str | Path) -> list[Parameter]:
    """Reads the keys and values to search. Throws InputError if the file is not valid."""
    content = load_yaml(file)
    if not isinstance(content, dict) or not content:
        raise InputError(f"{file}: must contain lines KEY: {{range: [low, high]}} or KEY: {{choices: [a, b, ...]}}")
    return [_parameter(f"{file}: {key}", str(key), entry) for key, entry in content.items()]
