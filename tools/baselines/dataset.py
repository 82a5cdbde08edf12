"""Data for the baseline: a dataset of vaecf_dist, a MovieLens file with the split of Liang et al., or random rows.

Independent of the C++ program, so that it checks the split of vaecf_dist. Each matrix is a pair (indptr int64, indices
int64); matrices are named as in a dataset of vaecf_dist: train, validation/fold_in, validation/held_out, test/...
"""

import math
import zlib

import numpy as np


def rows_to_csr(rows, columns, count):
    """Returns (indptr, indices) of unsorted (row, column) pairs, with columns ascending within a row."""
    order = np.lexsort((columns, rows))
    indptr = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=count), out=indptr[1:])
    return indptr, columns[order].astype(np.int64)


def load_hdf5(path):
    """Reads a dataset of vaecf_dist. Returns the number of items and the matrices by name."""
    import h5py
    with h5py.File(path, "r") as file:
        def matrix(name):
            return file[name + "/indptr"][:].astype(np.int64), file[name + "/indices"][:].astype(np.int64)
        items = int(file["items/id"].shape[0]) if "items/id" in file else int(file.attrs["items"])
        names = ("train", "validation/fold_in", "validation/held_out", "test/fold_in", "test/held_out")
        return items, {name: matrix(name) for name in names if name in file}


def load_ids(path, name, count):
    """Reads the ids `name` of a dataset of vaecf_dist, those of the source; numbers from 0 to `count` - 1 if it has none."""
    import h5py
    with h5py.File(path, "r") as file:
        if name not in file:
            return np.arange(count)
        text = h5py.check_string_dtype(file[name].dtype) is not None
        return file[name].asstr("utf-8", "surrogateescape")[:] if text else file[name][:]


def read_ratings(path):
    """Reads MovieLens ratings.dat (user::item::rating::time) or ratings.csv. Returns users, items, ratings in file order."""
    with open(path, "rb") as file:
        text = file.read()
    if path.endswith(".csv"):
        text = text[text.index(b"\n") + 1:].replace(b",", b" ")
    else:
        text = text.replace(b"::", b" ")
    table = np.fromstring(text, sep=" ").reshape(-1, 4)
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2]


def first_of_each(values):
    """Returns the distinct values in order of first appearance."""
    distinct, first = np.unique(values, return_index=True)
    return distinct[np.argsort(first)]


def split_liang2018(users, items, ratings, options):
    """Splits as Liang et al. (strong generalization), bit-exact through numpy's legacy generator.

    Returns the number of items, the matrices by name, and counts and checksums to compare.
    """
    keep = ratings >= options.min_rating
    users, items = users[keep], items[keep]
    _, first = np.unique(np.stack([users, items]), axis=1, return_index=True)
    first.sort()
    users, items = users[first], items[first]
    ids, inverse, counts = np.unique(users, return_inverse=True, return_counts=True)
    keep = counts[inverse] >= options.min_user_items
    users, items = users[keep], items[keep]

    ids = np.unique(users)
    position = np.random.RandomState(options.split_seed).permutation(len(ids))
    uid_of = np.empty(len(ids), dtype=np.int64)
    uid_of[position] = np.arange(len(ids))
    uid = uid_of[np.searchsorted(ids, users)]
    train_users = len(ids) - options.validation_users - options.test_users
    in_train = uid < train_users
    item_ids = first_of_each(items[in_train])
    by_id = np.argsort(item_ids)
    place = np.minimum(np.searchsorted(item_ids, items, sorter=by_id), len(item_ids) - 1)
    sid = by_id[place]
    known = item_ids[sid] == items

    matrices = {"train": rows_to_csr(uid[in_train], sid[in_train], train_users)}
    facts = {"users": len(ids), "events": len(users), "train_users": train_users,
             "train_events": int(in_train.sum()), "items": len(item_ids)}
    start = train_users
    for part, count in (("validation", options.validation_users), ("test", options.test_users)):
        mine = (uid >= start) & (uid < start + count)
        facts[part + "_dropped"] = int((mine & ~known).sum())
        mine &= known
        part_uid, part_sid, part_user = uid[mine], sid[mine], users[mine]
        order = np.argsort(part_user, kind="stable")
        part_uid, part_sid, part_user = part_uid[order], part_sid[order], part_user[order]
        held = np.zeros(len(part_uid), dtype=bool)
        random = np.random.RandomState(options.split_seed)
        edges = np.flatnonzero(np.r_[True, part_user[1:] != part_user[:-1], True]) if len(part_user) else []
        for begin, end in zip(edges[:-1], edges[1:]):
            if end - begin >= 5:
                held[begin + random.choice(end - begin, int(0.2 * (end - begin)), replace=False)] = True
        for name, chosen in (("fold_in", ~held), ("held_out", held)):
            pairs = np.stack([part_uid[chosen], part_sid[chosen]], axis=1).astype("<i4")
            facts[f"{part}_{name}"] = {"events": len(pairs), "crc32": f"{zlib.crc32(pairs.tobytes()):08x}"}
            matrices[f"{part}/{name}"] = rows_to_csr(part_uid[chosen] - start, part_sid[chosen], count)
        start += count
    return len(item_ids), matrices, facts


def synthesize(options):
    """Generates users with a skewed item popularity and about --per-user items each, for speed measurements only."""
    random = np.random.RandomState(1)
    users, items = options.synthetic_users, options.synthetic_items
    counts = np.clip(random.lognormal(math.log(options.per_user) - 0.5, 1.0, users), 4, items // 4).astype(np.int64)
    popularity = 1.0 / (np.arange(items) + 10.0)
    columns = np.searchsorted(np.cumsum(popularity / popularity.sum()), random.random_sample(counts.sum()))
    pairs = np.unique(np.repeat(np.arange(users), counts) * items + np.minimum(columns, items - 1))
    return items, {"train": rows_to_csr(pairs // items, pairs % items, users)}
