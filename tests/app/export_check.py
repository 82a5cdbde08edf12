"""Compares the scores of a model exported to m.onnx and m.safetensors with the output of `recommend`.

usage: export_check.py EXPORT.md SEEN.csv RECOMMENDED.tsv [PEOPLE.csv]
SEEN.csv: lines user,item, or user,item,value for a model with weights, each item of a user once. RECOMMENDED.tsv:
`recommend --input SEEN.csv [--user-features PEOPLE.csv] --keep-seen`. EXPORT.md contains the code that computes scores from
m.safetensors and columns of features. The exit code is 77 if Python has no onnx.
"""
import csv
import json
import re
import sys
import types

try:
    import numpy as np
    import onnx
    from onnx.reference import ReferenceEvaluator
except ImportError as missing:
    print(missing)
    sys.exit(77)


def xxh64(data, seed=0):
    """Returns the XXH64 hash of fewer than 32 bytes, computed by its definition."""
    p1, p2, p3, p4, p5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                          0x27D4EB2F165667C5)
    mask = (1 << 64) - 1
    rotate = lambda x, r: ((x << r) | (x >> (64 - r))) & mask
    assert len(data) < 32
    h = (seed + p5 + len(data)) & mask
    while len(data) >= 8:
        k = rotate(int.from_bytes(data[:8], "little") * p2 & mask, 31) * p1 & mask
        h, data = (rotate(h ^ k, 27) * p1 + p4) & mask, data[8:]
    if len(data) >= 4:
        h, data = (rotate(h ^ (int.from_bytes(data[:4], "little") * p1 & mask), 23) * p2 + p3) & mask, data[4:]
    for byte in data:
        h = rotate(h ^ (byte * p5 & mask), 11) * p1 & mask
    h = (h ^ (h >> 33)) * p2 & mask
    h = (h ^ (h >> 29)) * p3 & mask
    return h ^ (h >> 32)


def code_of(page, section, beginning):
    """Runs the Python code in a section of a page whose first line begins so, and returns its names."""
    text = re.search(rf"\n## {section}\n(.*?)\n(?:## |\Z)", page, re.S)[1]
    blocks = [b for b in re.findall(r"```python\n(.*?)```", text, re.S) if b.startswith(beginning)]
    names = {}
    assert len(blocks) == 1, (section, beginning)
    exec(blocks[0], names)
    return names


def batch(rows, padding=-1, kind=np.int64):
    width = max(map(len, rows))
    return np.array([row + [padding] * (width - len(row)) for row in rows], kind).reshape(len(rows), width)


def weights_of(values, transformation):
    """Weights of one user's items: the transformed values, divided by their mean."""
    weights = np.log1p(values) if transformation == "log1p" else np.array(values)
    return list(weights / weights.mean())


page_path, seen_path, recommended_path = sys.argv[1:4]
sys.modules["xxhash"] = types.SimpleNamespace(xxh64_intdigest=xxh64)
page = open(page_path).read()
columns_of = code_of(page, "ONNX", "from xxhash")["columns_of"]
safetensors = code_of(page, "safetensors", "import json, numpy as np\n\ndef read")

model = onnx.load("m.onnx")
onnx.checker.check_model(model, full_check=True)
metadata = {p.key: p.value for p in model.metadata_props}
ids = json.loads(metadata["item_ids"])
column = {str(item): c for c, item in enumerate(ids)}

seen, values = {}, {}
for user, item, *value in csv.reader(open(seen_path)):
    seen.setdefault(user, []).extend([column[item]] if item in column else [])
    values.setdefault(user, []).extend(float(number) for number in value if item in column)
inputs = {"items": batch(list(seen.values()))}
if "interaction_weights" in metadata:
    inputs["interaction_weights"] = batch([weights_of(row, metadata["interaction_weights"]) for row in values.values()], 0, np.float32)
features = {user: () for user in seen}
if len(sys.argv) > 4:
    people = {row.pop("user"): row for row in csv.DictReader(open(sys.argv[4]))}
    for user in seen:
        texts = {name: [text] for name, text in people[user].items() if text}
        features[user] = columns_of(texts, metadata["feature_hashing"])
    inputs["user_features"] = batch([list(row) for row in features.values()])
of_onnx = dict(zip(seen, ReferenceEvaluator("m.onnx").run(["scores"], inputs)[0]))

facts, tensors = safetensors["read"]("m.safetensors")
texts = [id.decode() if isinstance(id, bytes) else id for id in safetensors["ids_of"](tensors)]
assert texts == ids and {**facts, "item_ids": metadata["item_ids"]} == metadata
of_tensors = {}
for user, items in seen.items():
    x = safetensors["input_of"](values[user] or items, facts)
    of_tensors[user] = safetensors["scores"](facts, tensors, items, x, features[user])

lines = list(csv.reader(open(recommended_path), delimiter="\t"))[1:]
assert lines and {line[0] for line in lines} == set(seen)
for user, item, score in lines:
    for name, scores in (("onnx", of_onnx), ("safetensors", of_tensors)):
        ours = scores[user][column[item]]
        assert abs(ours - float(score)) <= 1e-4 * max(1.0, abs(float(score))), (name, user, item, score, ours)
print(f"{len(lines)} scores agree")
