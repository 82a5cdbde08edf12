"""Independent implementation of the liang2018 split in plain Python; prints the figures in split_test.cpp.

Users sorted by id are permuted with NumPy's legacy generator (implemented below, so NumPy is not required).
Items are numbered by first appearance in the events of train users. A fifth of the events of each held-out user
with at least five events become targets; the generator is seeded again for each part.
Usage: python3 liang_split_reference.py
"""

import struct
import zlib


class NumpyRandom:
    def __init__(self, seed):
        self.x = [seed]
        for i in range(1, 624):
            self.x.append((1812433253 * (self.x[-1] ^ (self.x[-1] >> 30)) + i) & 0xFFFFFFFF)
        self.at = 624

    def word(self):
        if self.at == 624:
            x = self.x
            for i in range(624):
                y = (x[i] & 0x80000000) | (x[(i + 1) % 624] & 0x7FFFFFFF)
                x[i] = x[(i + 397) % 624] ^ (y >> 1) ^ (0x9908B0DF if y & 1 else 0)
            self.at = 0
        y = self.x[self.at]
        self.at += 1
        y ^= y >> 11
        y ^= (y << 7) & 0x9D2C5680
        y ^= (y << 15) & 0xEFC60000
        return y ^ (y >> 18)

    def interval(self, top):
        if top == 0:
            return 0
        mask = (1 << top.bit_length()) - 1
        while True:
            value = self.word() & mask
            if value <= top:
                return value

    def permutation(self, n):
        values = list(range(n))
        for i in range(n - 1, 0, -1):
            j = self.interval(i)
            values[i], values[j] = values[j], values[i]
        return values


def fixture():
    """1,500 ratings of 60 users and 80 items with repetitions, the same as in split_test.cpp."""
    x = 12345
    rows = []
    for _ in range(1500):
        drawn = []
        for _ in range(3):
            x = (x * 1103515245 + 12345) % 2**31
            drawn.append(x >> 12)
        rows.append((drawn[0] % 60 + 1, drawn[1] % 80 + 1, 0.5 * (1 + drawn[2] % 10)))
    return rows


def crc(pairs):
    return zlib.crc32(b"".join(struct.pack("<ii", *p) for p in pairs))


def split(rows, held_out, seed, min_items):
    seen, events = set(), []
    for user, item, rating in rows:
        if (user, item) not in seen and rating >= 4:
            events.append((user, item))
        seen.add((user, item))
    count = {}
    for user, _ in events:
        count[user] = count.get(user, 0) + 1
    events = [(u, i) for u, i in events if count[u] >= min_items]
    users = sorted({u for u, _ in events})
    order = NumpyRandom(seed).permutation(len(users))
    uid = {users[p]: k for k, p in enumerate(order)}
    train_users = len(users) - 2 * held_out
    sid = {}
    for user, item in events:
        if uid[user] < train_users:
            sid.setdefault(item, len(sid))
    train = sorted(((uid[u], sid[i]) for u, i in events if uid[u] < train_users), key=lambda p: p[0])
    print(f"users {len(users)} events {len(events)} items {len(sid)} train {len(train)} {crc(train):08x}")
    for name, begin in (("validation", train_users), ("test", train_users + held_out)):
        random = NumpyRandom(seed)
        fold_in, targets, dropped = [], [], 0
        for user in users:
            if not begin <= uid[user] < begin + held_out:
                continue
            known = [(uid[u], sid[i]) for u, i in events if u == user and i in sid]
            dropped += count[user] - len(known)
            n = len(known)
            picked = set(random.permutation(n)[: int(0.2 * n)]) if n >= 5 else set()
            fold_in += [p for k, p in enumerate(known) if k not in picked]
            targets += [p for k, p in enumerate(known) if k in picked]
        print(f"{name}: dropped {dropped} fold-in {len(fold_in)} {crc(fold_in):08x} "
              f"targets {len(targets)} {crc(targets):08x}")


if __name__ == "__main__":
    assert NumpyRandom(98765).permutation(10) == [8, 7, 1, 2, 0, 6, 9, 4, 3, 5]
    print("numbers:")
    split(fixture(), held_out=12, seed=98765, min_items=5)
    print("the same users as text (9 after 10):")
    split([(f"u{u}", i, r) for u, i, r in fixture()], held_out=12, seed=98765, min_items=5)
    print("min_items 3, another seed:")
    split(fixture(), held_out=12, seed=42, min_items=3)
