#!/usr/bin/env python3
"""Writes metrics_reference.h5: NDCG@k and Recall@k as published (Liang et al., WWW 2018, section 4.2 and its
notebook), recall over all targets (NGCF, LightGCN), hit rate (NCF), MRR, MAP (over min(k, targets)), precision, and unbiased recall and NDCG (RDLAE, SIGIR 2023), rendered with numpy on random scores with ties, masked fold-in items and users without targets.

Ties go to the lower item; users without targets are left out of means (both are rules of this program: the
notebook leaves the order of ties open and divides 0 by 0). HDF5 datasets, for U users, I items and M metrics:

    blocks                       the number of blocks
    metrics (M)                  names
    block_0/train_users (I)      numbers of train users n; the propensity is max(0.01, (n / max n)^0.5)
    block_0/scores (U, I)        fp32
    block_0/fold_in_offsets (U + 1), fold_in        items of user u are those from offset u to offset u + 1
    block_0/targets_offsets (U + 1), targets
    block_0/values (U, M)        NaN for users without targets
    block_0/{mean, error} (M)    error: population standard deviation / sqrt(users)
"""
import os

import h5py
import numpy as np

CUTOFFS = [("ndcg", 1), ("ndcg", 5), ("ndcg", 10), ("ndcg", 100), ("recall", 1), ("recall", 5), ("recall", 20),
           ("recall", 100), ("recall_n", 1), ("recall_n", 20), ("hit", 1), ("hit", 5), ("mrr", 1), ("mrr", 10),
           ("mrr", 100), ("map", 1), ("map", 10), ("map", 100), ("precision", 1), ("precision", 10),
           ("precision", 100), ("unbiased_recall", 1), ("unbiased_recall", 5), ("unbiased_recall", 100),
           ("unbiased_ndcg", 1), ("unbiased_ndcg", 10), ("unbiased_ndcg", 100)]
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


# Of the gain of the best k items, their weights 1 / propensity, and those of the targets.
UNBIASED = {
    "unbiased_recall": lambda gain, w, held, k: (gain * w).sum() / np.sort(held)[::-1][:k].sum(),
    "unbiased_ndcg": lambda gain, w, held, k:
        (gain * w * DISCOUNT[: len(gain)]).sum() / (np.sort(held)[::-1][:k] * DISCOUNT[: min(k, len(held))]).sum(),
}


def inverse_propensities(counts):
    return 1.0 / np.maximum(0.01, np.sqrt(counts / counts.max()))


def values_of_user(order, held_out, held, weights):
    for kind, k in CUTOFFS:
        if kind in UNBIASED:
            yield UNBIASED[kind](held_out[order[:k]], weights[order[:k]], weights[held], min(k, len(order)))
        else:
            yield METRICS[kind](held_out[order[:k]], len(held), k)


def block(rng, users, items, step):
    # Numbers of train users by a power law, some of them 0.
    counts = np.floor(5000.0 / (1.0 + np.random.default_rng(items).permutation(items)) ** 2)
    weights = inverse_propensities(counts)
    all_scores, all_values, fold_in, targets = [], [], [], []
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
        all_scores.append(scores)
        fold_in.append(seen)
        targets.append(held)
        all_values.append(list(values_of_user(order, held_out, held, weights)) if len(held) else [np.nan] * len(CUTOFFS))
    values = np.array(all_values)
    rows = values[~np.isnan(values[:, 0])]
    entries = {"train_users": counts.astype(np.int64), "scores": np.array(all_scores), "values": values, "mean": rows.mean(axis=0),
               "error": rows.std(axis=0) / np.sqrt(len(rows))}
    for name, lists in (("fold_in", fold_in), ("targets", targets)):
        entries[name] = np.concatenate(lists)
        entries[f"{name}_offsets"] = np.concatenate([[0], np.cumsum([len(row) for row in lists])])
    return entries


def main():
    rng = np.random.default_rng(20108)
    shapes = [(24, 50, 0.0), (40, 45, 0.5), (24, 30, 4.0), (12, 3, 0.5), (6, 160, 0.25)]
    entries = {"blocks": [len(shapes)], "metrics": np.array([f"{kind}@{k}" for kind, k in CUTOFFS], dtype="S")}
    for number, shape in enumerate(shapes):
        entries.update({f"block_{number}/{name}": value for name, value in block(rng, *shape).items()})
    with h5py.File(os.path.join(os.path.dirname(os.path.abspath(__file__)), "metrics_reference.h5"), "w") as file:
        for name, value in entries.items():
            file.create_dataset(name, data=value, track_times=False)


if __name__ == "__main__":
    main()
