"""Scores users by an exported ONNX model and compares with what `recommend` wrote.

usage: export_check.py MODEL.onnx SEEN.csv RECOMMENDED.tsv
SEEN.csv: lines user,item. RECOMMENDED.tsv: `recommend --input SEEN.csv --keep-seen`. Exit code 77 where no onnx is there.
"""
import csv
import json
import sys

try:
    import numpy as np
    import onnx
    try:
        import onnxruntime

        def scorer(path):
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            return lambda items: session.run(["scores"], {"items": items})[0]
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        def scorer(path):
            evaluator = ReferenceEvaluator(path)
            return lambda items: evaluator.run(["scores"], {"items": items})[0]
except ImportError as missing:
    print(missing)
    sys.exit(77)

model_path, seen_path, recommended_path = sys.argv[1:]
model = onnx.load(model_path)
onnx.checker.check_model(model, full_check=True)
ids = json.loads({p.key: p.value for p in model.metadata_props}["item_ids"])
column = {str(item): c for c, item in enumerate(ids)}

seen = {}
for user, item in csv.reader(open(seen_path)):
    seen.setdefault(user, []).append(column[item])
width = max(map(len, seen.values()))
items = np.array([row + [-1] * (width - len(row)) for row in seen.values()], np.int64)
scores = dict(zip(seen, scorer(model_path)(items)))

lines = list(csv.reader(open(recommended_path), delimiter="\t"))[1:]
assert lines and {line[0] for line in lines} == set(seen)
for user, item, score in lines:
    ours = scores[user][column[item]]
    assert abs(ours - float(score)) <= 1e-4 * max(1.0, abs(float(score))), (user, item, score, ours)
print(f"{len(lines)} scores agree")
