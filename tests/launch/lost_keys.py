#!/usr/bin/env python3
"""lost_keys OLD.json NEW.json: prints what a schema of configurations accepts and a later one does not, and defaults that changed.

A default that affects speed only may change: leave out such a key here, with the reason.
"""
import json
import sys


def alternatives(schema):
    return schema.get("anyOf", [schema])


def types(schema):
    found = schema.get("type", [])
    return {found} if isinstance(found, str) else set(found)


def type_of(value):
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", type(None): "null"}
    return names[type(value)]


def bound(schema, inclusive, exclusive, sign):
    """Returns a limit such that a larger one accepts more."""
    limits = [(sign * schema[inclusive], 1)] if inclusive in schema else []
    limits += [(sign * schema[exclusive], 0)] if exclusive in schema else []
    return min(limits, default=(float("inf"), 1))


def covers(new, old):
    """Returns whether a value of the alternative `old` is one of the alternative `new`, as far as can be told."""
    if "const" in new or "const" in old or "enum" in new or "enum" in old:
        values = [old["const"]] if "const" in old else old.get("enum")
        if values is None:
            return False
        accepted = [new["const"]] if "const" in new else new.get("enum")
        if accepted is None:
            return not types(new) or {type_of(value) for value in values} <= types(new)
        return all(value in accepted for value in values)
    wider = types(new) | ({"integer"} if "number" in types(new) else set())
    if types(new) and not (types(old) and types(old) <= wider):
        return False
    if bound(new, "minimum", "exclusiveMinimum", -1) < bound(old, "minimum", "exclusiveMinimum", -1):
        return False
    if bound(new, "maximum", "exclusiveMaximum", 1) < bound(old, "maximum", "exclusiveMaximum", 1):
        return False
    if any(new.get(key, 0) > old.get(key, 0) for key in ("minItems", "minLength")):
        return False
    if new.get("maxItems", float("inf")) < old.get("maxItems", float("inf")):
        return False
    return "items" not in new or ("items" in old and covers(new["items"], old["items"]))


def compare(path, old, new):
    if old.get("default") != new.get("default"):
        print(f"{path}: the default was {old.get('default')}, is {new.get('default')}")
    sections = [[each for each in alternatives(schema) if "properties" in each] for schema in (old, new)]
    for name, value in (sections[0][0]["properties"] if sections[0] else {}).items():
        inner = sections[1][0]["properties"].get(name) if sections[1] else None
        if inner is None:
            print(f"{path}.{name}: is missing")
        else:
            compare(f"{path}{'.' if path else ''}{name}", value, inner)
    for alternative in alternatives(old):
        if "properties" not in alternative and not any(covers(each, alternative) for each in alternatives(new)):
            print(f"{path}: no longer accepts {json.dumps(alternative)}")


compare("", *[json.load(open(name, encoding="utf-8")) for name in sys.argv[1:]])
