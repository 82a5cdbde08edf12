"""Lists of the best items from scores, and the metrics of such lists, in NumPy; with dataset.py, this is all that scripts beside a
library need to be judged by `vaecf_dist evaluate`."""

import math

import numpy as np
import scipy.sparse as sp

from dataset import load_ids


def matrix(pair, items):
    """Returns (indptr, indices) as a SciPy CSR matrix of ones."""
    indptr, indices = pair
    return sp.csr_matrix((np.ones(len(indices), dtype=np.float32), indices, indptr), shape=(len(indptr) - 1, items))


def best_of(scores, count):
    """Returns the columns of the best `count` scores of each row, best first, equal scores by ascending column."""
    best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    values = np.take_along_axis(scores, best, 1)
    best = np.take_along_axis(best, np.lexsort((best, -values), axis=1), 1)
    # argpartition takes any of the scores that equal the last one.
    for row in np.flatnonzero((scores >= values.min(1)[:, None]).sum(1) > count):
        best[row] = np.argsort(-scores[row], kind="stable")[:count]
    return best


def best_items(scores_of, fold_in, count, users=500):
    """Returns the best `count` items of each user, (users, count), best first, without the items of the user; -1: no further item.

    scores_of(rows) returns the scores (B, items) for a CSR matrix of fold-in rows. Items with the score -inf are not in a list.
    """
    items, count = [], min(count, fold_in.shape[1])
    for begin in range(0, fold_in.shape[0], users):
        seen = fold_in[begin:begin + users]
        scores = np.array(scores_of(seen))
        scores[seen.nonzero()] = -np.inf
        best = best_of(scores, count)
        items.append(np.where(np.take_along_axis(scores, best, 1) > -np.inf, best, -1))
    return np.concatenate(items)


def judge(lists, held_out):
    """Returns NDCG@100, Recall@20 and Recall@50 of best_items() as means over users with a target, with standard errors."""
    discount = 1.0 / np.log2(np.arange(2, 102))
    ideal = np.cumsum(discount)
    hits, count = np.zeros((len(lists), 100)), held_out.getnnz(1)
    at = lists[:, :100]
    hits[:, :at.shape[1]] = (held_out[np.arange(len(at))[:, None], at].toarray() > 0) & (at >= 0)
    hits, count = hits[count > 0], count[count > 0]
    values = [(hits * discount).sum(1) / ideal[np.minimum(count, 100) - 1],
              hits[:, :20].sum(1) / np.minimum(count, 20), hits[:, :50].sum(1) / np.minimum(count, 50)]
    result = {"users": len(hits)}
    for name, value in zip(("ndcg@100", "recall@20", "recall@50"), values):
        result[name] = round(value.mean(), 5)
        result[name + "_se"] = round(value.std() / math.sqrt(len(value)), 5)
    return result


def write_lists(path, dataset, lists):
    """Writes the lists of the test users as TSV: user, item, rank, with the ids of the source."""
    user_id, item_id = load_ids(dataset, "test/user_id", len(lists)), load_ids(dataset, "items/id", lists.max() + 1)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write("user\titem\trank\n")
        for user, of_user in zip(user_id, lists):
            file.writelines(f"{user}\t{item_id[item]}\t{rank}\n" for rank, item in enumerate(of_user[of_user >= 0], 1))
