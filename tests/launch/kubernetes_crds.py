"""Checks manifests against definitions of Kubernetes resources: kubernetes_crds.py FOLDER MANIFEST... prints what is wrong.

FOLDER contains the definitions (CustomResourceDefinition) as the operators publish them. Fields, types, required fields,
enumerations, patterns and limits are compared; rules in CEL are not evaluated.
"""

import pathlib
import re
import sys

import yaml

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
# The definition of a namespace's runtimes has the same specification as that of the cluster's.
SAME_SPECIFICATION = {"TrainingRuntime": "ClusterTrainingRuntime"}

problems = []


def definitions(folder):
    """Returns the schemas of all definitions in the folder by version and kind."""
    schemas = {}
    for path in sorted(folder.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document.get("kind") == "CustomResourceDefinition":
                spec = document["spec"]
                for version in spec["versions"]:
                    name = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
                    schemas[name] = version["schema"]["openAPIV3Schema"]
    return schemas


def check_value(schema, value, place):
    """Compares a value that is no object or list with the schema."""
    if "enum" in schema and value not in schema["enum"]:
        problems.append(f"{place}: must be one of {schema['enum']}, got {value}")
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        problems.append(f"{place}: must match {schema['pattern']}, got {value}")
    if isinstance(value, (int, float)) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        problems.append(f"{place}: must be between {schema.get('minimum')} and {schema.get('maximum')}, got {value}")


def check_object(schema, value, place):
    """Compares an object and everything below it with the schema."""
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or others is True or (not fields and others is None)
    for name in schema.get("required", []):
        if name not in value:
            problems.append(f"{place}: has no {name}")
    for name, below in value.items():
        if name in fields:
            check(fields[name], below, f"{place}.{name}")
        elif isinstance(others, dict):
            check(others, below, f"{place}.{name}")
        elif not is_open:
            problems.append(f"{place}.{name}: unknown field")


def check(schema, value, place):
    """Compares a value and everything below it with the schema."""
    expected = ("integer", "string") if schema.get("x-kubernetes-int-or-string") else (schema.get("type"),)
    types = [TYPES[name] for name in expected if name]
    is_wrong_boolean = isinstance(value, bool) and "boolean" not in expected
    if types and (is_wrong_boolean or not any(isinstance(value, kind) for kind in types)):
        problems.append(f"{place}: must be of type {' or '.join(expected)}, got {value}")
    elif isinstance(value, dict):
        check_object(schema, value, place)
    elif isinstance(value, list):
        for index, below in enumerate(value):
            check(schema.get("items", {}), below, f"{place}[{index}]")
    else:
        check_value(schema, value, place)


def main():
    """Checks the manifests."""
    folder, *manifests = map(pathlib.Path, sys.argv[1:])
    schemas = definitions(folder)
    for path in manifests:
        for document in yaml.safe_load_all(path.read_text()):
            version, kind = document["apiVersion"], document["kind"]
            schema = schemas.get((version, kind)) or schemas.get((version, SAME_SPECIFICATION.get(kind)))
            if schema is None:
                problems.append(f"{path.name}: {folder} has no definition of {kind} in {version}")
            else:
                check(schema, document, kind)
    print("\n".join(problems))
    return bool(problems)


sys.exit(main())
