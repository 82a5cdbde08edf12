#!/usr/bin/env python3
"""Writes metrics_reference.txt: NDCG@k and Recall@k as published (Liang et al., WWW 2018, section 4.2 and its
notebook), recall over all targets (NGCF, LightGCN), hit rate (NCF), MRR, MAP (over min(k, targets)) and precision, rendered with numpy on random scores with ties, masked fold-in items and users without targets.

    python3 make_metrics_reference.py > metrics_reference.txt

Ties go to the lower item; users without targets are left out of means (both are rules of this program: the
notebook leaves the order of ties open and divides 0 by 0). Format, one record a line:
    metrics NAME...
    block USERS ITEMS
    scores  ITEMS floats               \\
    fold_in ITEM...                     | once per user
    targets ITEM...                     |
    values  one per metric, or nothing /
    mean    one per metric
    error   one per metric             population standard deviation / sqrt(users)
"""
import numpy as np

CUTOFFS = [("ndcg", 1), ("ndcg", 5), ("ndcg", 10), ("ndcg", 100), ("recall", 1), ("recall", 5), ("recall", 20),
           ("recall", 100), ("recall_n", 1), ("recall_n", 20), ("hit", 1), ("hit", 5), ("mrr", 1), ("mrr", 10),
           ("mrr", 100), ("map", 1), ("map", 10), ("map", 100), ("precision", 1), ("precision", 10),
           ("precision", 100)]
DISCOUNT = 1.0 / np.log2(np.arange(2, 1000))


def average_precision(gain, n, k):
    return (np.cumsum(gain) / np.arange(1, len(gain) + 1) * gain).sum() / min(k, n)


# Of the gain (0 or 1) of the best k items, or of all items if there are fewer, and the number n of targets.
METRICS = {
    "ndcg": lambda gain, n, k: (gain * DISCOUNT[: len(gain)]).sum() / DISCOUNT[: min(n, len(gain))].sum(),
    "recall": lambda gain, n, k: gain.sum() / min(k, n),
    "recall_n": lambda gain, n, k: gain.sum() / n,
    "hit": lambda gain, n, k: float(gain.any()),
    "mrr": lambda gain, n, k: 1.0 / (np.flatnonzero(gain)[0] + 1) if gain.any() else 0.0,
    "map": average_precision,
    "precision": lambda gain, n, k: gain.sum() / k,
}


def write_block(rng, users, items, step):
    print(f"block {users} {items}")
    rows = []
    for user in range(users):
        scores = rng.normal(size=items).astype(np.float32)
        if step:
            scores = (np.round(scores / step) * step + 0.0).astype(np.float32)
        picked = rng.permutation(items)
        seen = np.sort(picked[: rng.integers(0, items // 2)])
        rest = picked[len(seen):]
        held = np.sort(rest[: 0 if user % 6 == 5 else rng.integers(1, len(rest) + 1)])
        masked = scores.astype(np.float64)
        masked[seen] = -np.inf
        order = np.argsort(-masked, kind="stable")
        held_out = np.zeros(items)
        held_out[held] = 1.0
        print("scores", *(f"{s:.9g}" for s in scores))
        print("fold_in", *seen)
        print("targets", *held)
        if len(held):
            values = [METRICS[kind](held_out[order[:k]], len(held), k) for kind, k in CUTOFFS]
            rows.append(values)
            print("values", *(f"{v:.17g}" for v in values))
        else:
            print("values")
    rows = np.array(rows)
    print("mean", *(f"{v:.17g}" for v in rows.mean(axis=0)))
    print("error", *(f"{v:.17g}" for v in rows.std(axis=0) / np.sqrt(len(rows))))


def main():
    rng = np.random.default_rng(20108)
    print("metrics", *(f"{kind}@{k}" for kind, k in CUTOFFS))
    write_block(rng, 24, 50, 0.0)
    write_block(rng, 40, 45, 0.5)
    write_block(rng, 24, 30, 4.0)
    write_block(rng, 12, 3, 0.5)
    write_block(rng, 6, 160, 0.25)


if __name__ == "__main__":
    main()
