"""Independent implementation of the liang2018 split with NumPy's generator; prints the figures in split_test.cpp.

Users sorted by id are permuted. Items are numbered by first appearance in the events of train users. A fifth of the
events of each held-out user with at least five events become targets; the generator is seeded again for each part.
"""
import struct
import zlib

import numpy as np


def fixture():
    """1,500 ratings of 60 users and 80 items with repetitions, the same as in split_test.cpp."""
    x, draws = 12345, []
    for _ in range(4500):
        x = (x * 1103515245 + 12345) % 2**31
        draws.append(x >> 12)
    return [(user % 60 + 1, item % 80 + 1, 0.5 * (1 + rating % 10))
            for user, item, rating in zip(draws[::3], draws[1::3], draws[2::3])]


def crc(pairs):
    return zlib.crc32(b"".join(struct.pack("<ii", *p) for p in pairs))


def split(rows, seed, min_items, held_out=12):
    first = {}
    for user, item, rating in rows:
        first.setdefault((user, item), rating)
    events = [pair for pair, rating in first.items() if rating >= 4]
    count = {user: sum(u == user for u, _ in events) for user, _ in events}
    events = [(u, i) for u, i in events if count[u] >= min_items]
    users = sorted({u for u, _ in events})
    uid = {users[p]: k for k, p in enumerate(np.random.RandomState(seed).permutation(len(users)))}
    train_users = len(users) - 2 * held_out
    sid = {}
    for user, item in events:
        if uid[user] < train_users:
            sid.setdefault(item, len(sid))
    train = sorted(((uid[u], sid[i]) for u, i in events if uid[u] < train_users), key=lambda p: p[0])
    print(f"users {len(users)} events {len(events)} items {len(sid)} train {len(train)} {crc(train):08x}")
    for name, begin in (("validation", train_users), ("test", train_users + held_out)):
        random = np.random.RandomState(seed)
        fold_in, targets, dropped = [], [], 0
        for user in (u for u in users if begin <= uid[u] < begin + held_out):
            known = [(uid[u], sid[i]) for u, i in events if u == user and i in sid]
            dropped += count[user] - len(known)
            n = len(known)
            picked = set(random.permutation(n)[: int(0.2 * n)]) if n >= 5 else set()
            fold_in += [p for k, p in enumerate(known) if k not in picked]
            targets += [p for k, p in enumerate(known) if k in picked]
        print(f"{name}: dropped {dropped} fold-in {len(fold_in)} {crc(fold_in):08x} "
              f"targets {len(targets)} {crc(targets):08x}")


if __name__ == "__main__":
    split(fixture(), seed=98765, min_items=5)
    split([(f"u{u}", i, r) for u, i, r in fixture()], seed=98765, min_items=5)  # sorted as text: 9 after 10
    split(fixture(), seed=42, min_items=3)
