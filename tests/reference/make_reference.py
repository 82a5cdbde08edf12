#!/usr/bin/env python3
"""Makes multvae_reference.h5: what small Mult-VAE and Mult-DAE models compute, in fp64.

Independent of the C++ program: forward and backward pass, optimizer and Philox4x32-10 are written in NumPy.
The stored gradients are those of PyTorch's autograd, which this backward pass equals.
Model: Liang et al., "Variational Autoencoders for Collaborative Filtering", WWW 2018.

With --check, it computes everything again and compares with the file (1e-10).

Of its HDF5 datasets, `cases` is the number of cases; the others are case_0/ENTRY, ... A number is an array of one. Entries:

    config/{sampled, hidden, latent, items, first_user, seed}           sampled: 1 mult_vae, 0 mult_dae
    config/{step, beta, keep}                       of the single step below; user number = first_user + row
    config/keep_history                             share of users whose items are not all dropped
    config/features                                 F, columns of the users' features; 0: the model knows none
    input/{indptr, indices}                         CSR of the users' items
    input/values                                    exact in fp32; absent: every value is 1
    input/{feature_indptr, feature_indices}         CSR of the users' features (F > 0 only)
    weights/TENSOR                                  exact in fp32; TENSOR = encoder_1/weight (inputs, outputs),
                                                    encoder_1/bias (outputs) ... decoder_1/weight ... as in checkpoints
                                                    encoder_1/feature_weight (F, outputs) where F > 0
    random/mask (B, I)                              1 = kept, for every item, the user's or not; all 0 where
                                                    the whole history is dropped
    random/noise (B, L)                             eps (mult_vae only)
    activations/encoder_k                           after tanh; the last of mult_vae is [mu | logvar], no tanh
    activations/z (B, L)                            of mult_dae equal to its last encoder
    activations/decoder_k                           after tanh, k = 1 .. number of hidden layers
    loss/{nll, kl}                                  sums over users (kl without beta)
    gradients/TENSOR                                of nll + beta * kl, sums over users, no weight decay
    evaluation/{z, logits}                          without dropout, z = mu
    evaluation/cold_logits                          the same of users without items (F > 0 only)
    training/{updates, rate, beta1, beta2, epsilon, lambda}
    training/{beta, nll, kl, loss, penalty}         per update t = 0 .. 9, before it; nll, kl: means per user;
                                                    loss = nll + beta kl; penalty = lambda sum ||W||^2, not in loss
    training/weights/TENSOR                         after the last update

Training starts from `weights`, takes all users as one batch, draws with step = updates done before, and uses
Adam in TensorFlow's form: rate sqrt(1 - beta2^t) / (1 - beta1^t), epsilon outside the correction.
"""

import os
import sys

import h5py
import numpy as np

OUTPUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "multvae_reference.h5")
DROPOUT, LATENT_NOISE, HISTORY = 1, 2, 5

CASES = [
    dict(sampled=1, hidden=[11], latent=5, first_user=0, seed=98765, step=3, beta=0.125, keep=0.5,
         rate=0.01, weight_decay=0.0, cap=0.2, annealing_steps=25.0),
    dict(sampled=1, hidden=[11, 7], latent=6, first_user=41, seed=(7 << 32) + 12345, step=0, beta=1.0,
         keep=0.75, rate=0.01, weight_decay=0.0, cap=0.125, annealing_steps=50.0),
    dict(sampled=0, hidden=[9], latent=4, first_user=0, seed=1, step=70000, beta=0.0, keep=0.5,
         rate=0.01, weight_decay=0.0078125, cap=0.0, annealing_steps=1.0),
    dict(sampled=1, hidden=[5], latent=3, first_user=7, seed=54321, step=2, beta=0.25, keep=0.5,
         rate=0.01, weight_decay=0.00390625, cap=0.2, annealing_steps=25.0, features=6, keep_history=0.5),
    dict(sampled=1, hidden=[5], latent=3, first_user=3, seed=24680, step=1, beta=0.25, keep=0.5,
         rate=0.01, weight_decay=0.0, cap=0.2, annealing_steps=25.0, weighted=True),
]
ITEMS_PER_USER = [3, 0, 9, 1, 5, 2, 8, 4, 7, 6, 1, 9, 2]
FEATURES_PER_USER = [2, 3, 0, 1, 6, 2, 2, 0, 4, 2, 1, 2, 5]
ITEMS, UPDATES = 37, 10
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
CONFIG = ["sampled", "hidden", "latent", "first_user", "seed", "step", "beta", "keep", "features", "keep_history"]


# Philox4x32-10, Salmon et al., SC 2011.

def philox4x32_10(counter, key):
    """counter: (..., 4), key: (2,), unsigned 32-bit numbers -> (..., 4)."""
    c = [np.asarray(counter[..., k], dtype=np.uint64) for k in range(4)]
    k0, k1 = int(key[0]), int(key[1])
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        p0 = c[0] * np.uint64(0xD2511F53)
        p1 = c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> shift) ^ c[1] ^ np.uint64(k0), p1 & low, (p0 >> shift) ^ c[3] ^ np.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, axis=-1)


def random_words(seed, purpose, step, users, count):
    """(users, count) words: counter = (index div 4, user, step, purpose), word index mod 4."""
    blocks = (count + 3) // 4
    counter = np.zeros((len(users), blocks, 4), dtype=np.uint64)
    counter[..., 0] = np.arange(blocks, dtype=np.uint64)
    counter[..., 1] = np.asarray(users, dtype=np.uint64)[:, None]
    counter[..., 2] = step
    counter[..., 3] = purpose
    words = philox4x32_10(counter, (seed & 0xFFFFFFFF, seed >> 32))
    return words.reshape(len(users), 4 * blocks)[:, :count]


def dropout_mask(case, step, users):
    words = random_words(case["seed"], DROPOUT, step, users, ITEMS)
    kept = words < np.uint64(int(case["keep"] * 2.0**32))
    words = random_words(case["seed"], HISTORY, step, users, 1)
    return (kept & (words < np.uint64(int(case.get("keep_history", 1.0) * 2.0**32)))).astype(np.float64)


def latent_noise(case, step, users):
    """Box-Muller on words (0, 1) and (2, 3) of each block; the uniform is rounded to fp32 as the program's is."""
    count = case["latent"]
    words = random_words(case["seed"], LATENT_NOISE, step, users, 4 * ((count + 3) // 4))
    uniform = words.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
    uniform = uniform.astype(np.float64).reshape(len(users), -1, 2)
    radius = np.sqrt(-2.0 * np.log(uniform[..., 0]))
    angle = 2.0 * np.pi * uniform[..., 1]
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return pairs.reshape(len(users), -1)[:, :count]


# The model.

def layer_shapes(case):
    hidden, latent = case["hidden"], case["latent"]
    encoder = [ITEMS] + hidden + [2 * latent if case["sampled"] else latent]
    decoder = [latent] + hidden[::-1] + [ITEMS]
    shapes = {}
    for name, widths in (("encoder", encoder), ("decoder", decoder)):
        for k in range(len(widths) - 1):
            shapes[f"{name}_{k + 1}/weight"] = (widths[k], widths[k + 1])
            shapes[f"{name}_{k + 1}/bias"] = (widths[k + 1],)
    if "features" in case:
        shapes["encoder_1/feature_weight"] = (case["features"], encoder[1])
    return shapes


def make_weights(case, random):
    """Exact in fp32, so that a program that computes in fp32 starts from the very same numbers."""
    return {name: np.float64(np.float32(random.standard_normal(shape) * (0.3 if name.endswith("weight") else 0.1)))
            for name, shape in layer_shapes(case).items()}


def make_input(case, random):
    """Dense X (B, I), binary unless the case is weighted. No user holds item 17."""
    x = np.zeros((len(ITEMS_PER_USER), ITEMS))
    choices = np.delete(np.arange(ITEMS), 17)
    for user, count in enumerate(ITEMS_PER_USER):
        x[user, random.choice(choices, count, replace=False)] = 1.0
    if case.get("weighted"):
        x *= np.float32(np.exp(random.standard_normal(x.shape)))
    return x


def make_features(case, random):
    """Dense binary F (B, features), or None."""
    if "features" not in case:
        return None
    f = np.zeros((len(FEATURES_PER_USER), case["features"]))
    for user, count in enumerate(FEATURES_PER_USER):
        f[user, random.choice(case["features"], count, replace=False)] = 1.0
    return f


def normalized(x, mask, keep):
    length = np.sqrt(np.maximum((x * x).sum(axis=1, keepdims=True), 1e-12))
    return x / length * mask / keep


def forward(case, weights, source, noise):
    """Activations by name. noise None: z = mu."""
    depth, latent = len(case["hidden"]), case["latent"]
    seen, h = {}, source
    for k in range(1, depth + 2):
        h = h @ weights[f"encoder_{k}/weight"] + weights[f"encoder_{k}/bias"]
        if k == 1 and case["beside"] is not None:
            h = h + case["beside"] @ weights["encoder_1/feature_weight"]
        if k <= depth or not case["sampled"]:
            h = np.tanh(h)
        seen[f"encoder_{k}"] = h
    if case["sampled"]:
        seen["mu"], seen["logvar"] = h[:, :latent], h[:, latent:]
        h = seen["mu"] if noise is None else seen["mu"] + noise * np.exp(0.5 * seen["logvar"])
    seen["z"] = h
    for k in range(1, depth + 1):
        h = np.tanh(h @ weights[f"decoder_{k}/weight"] + weights[f"decoder_{k}/bias"])
        seen[f"decoder_{k}"] = h
    seen["logits"] = h @ weights[f"decoder_{depth + 1}/weight"] + weights[f"decoder_{depth + 1}/bias"]
    return seen


def log_softmax(logits):
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def losses(seen, x):
    """Sums over users of the negative log likelihood and of KL(q || N(0, 1))."""
    nll = -(x * log_softmax(seen["logits"])).sum()
    if "mu" not in seen:
        return nll, 0.0
    mu, logvar = seen["mu"], seen["logvar"]
    return nll, 0.5 * (np.exp(logvar) + mu**2 - 1.0 - logvar).sum()


def backward(case, weights, source, x, noise, beta, seen):
    depth, gradients = len(case["hidden"]), {}

    def layer(name, inputs, d):
        gradients[f"{name}/weight"], gradients[f"{name}/bias"] = inputs.T @ d, d.sum(axis=0)
        return d @ weights[f"{name}/weight"].T

    d = x.sum(axis=1, keepdims=True) * np.exp(log_softmax(seen["logits"])) - x
    for k in range(depth + 1, 0, -1):
        d = layer(f"decoder_{k}", seen[f"decoder_{k - 1}"] if k > 1 else seen["z"], d)
        if k > 1:
            d = d * (1.0 - seen[f"decoder_{k - 1}"]**2)
    if case["sampled"]:
        mu, logvar = seen["mu"], seen["logvar"]
        d_logvar = 0.5 * d * noise * np.exp(0.5 * logvar) + 0.5 * beta * (np.exp(logvar) - 1.0)
        d = np.concatenate([d + beta * mu, d_logvar], axis=1)
    else:
        d = d * (1.0 - seen["z"]**2)
    for k in range(depth + 1, 0, -1):
        if k == 1 and case["beside"] is not None:
            gradients["encoder_1/feature_weight"] = case["beside"].T @ d
        d = layer(f"encoder_{k}", seen[f"encoder_{k - 1}"] if k > 1 else source, d)
        if k > 1:
            d = d * (1.0 - seen[f"encoder_{k - 1}"]**2)
    return {name: gradients[name] for name in weights}


def run_step(case, weights, x, step, beta):
    """One forward and backward pass: source, noise, activations, nll, kl, gradients."""
    users = case["first_user"] + np.arange(len(x))
    source = normalized(x, dropout_mask(case, step, users), case["keep"])
    noise = latent_noise(case, step, users) if case["sampled"] else None
    seen = forward(case, weights, source, noise)
    return source, noise, seen, *losses(seen, x), backward(case, weights, source, x, noise, beta, seen)


def train(case, weights, x):
    weights = {name: value.copy() for name, value in weights.items()}
    first = {name: np.zeros_like(value) for name, value in weights.items()}
    second = {name: np.zeros_like(value) for name, value in weights.items()}
    history = {name: [] for name in ("beta", "nll", "kl", "loss", "penalty")}
    for done in range(UPDATES):
        beta = min(case["cap"], done / case["annealing_steps"])
        _, _, _, nll, kl, gradients = run_step(case, weights, x, done, beta)
        squares = sum((value**2).sum() for name, value in weights.items() if name.endswith("weight"))
        for name, value in (("beta", beta), ("nll", nll / len(x)), ("kl", kl / len(x)),
                            ("loss", (nll + beta * kl) / len(x)), ("penalty", case["weight_decay"] * squares)):
            history[name].append(value)
        t = done + 1
        rate = case["rate"] * np.sqrt(1.0 - BETA2**t) / (1.0 - BETA1**t)
        for name, value in weights.items():
            g = gradients[name] / len(x)
            if name.endswith("weight"):
                g = g + 2.0 * case["weight_decay"] * value
            first[name] = BETA1 * first[name] + (1.0 - BETA1) * g
            second[name] = BETA2 * second[name] + (1.0 - BETA2) * g**2
            value -= rate * first[name] / (np.sqrt(second[name]) + EPSILON)
    return history, weights


def reference_of(case, random):
    x, weights, f = make_input(case, random), make_weights(case, random), make_features(case, random)
    case["beside"] = None if f is None else normalized(f, 1.0, 1.0)
    _, noise, seen, nll, kl, gradients = run_step(case, weights, x, case["step"], case["beta"])
    plain = forward(case, weights, normalized(x, 1.0, 1.0), None)
    history, final = train(case, weights, x)
    parts = {
        "config": {"features": 0, "keep_history": 1.0, "items": ITEMS,
                   **{name: case[name] for name in CONFIG if name in case}},
        "input": {"indptr": np.concatenate([[0], np.cumsum((x > 0.0).sum(axis=1))]), "indices": np.nonzero(x)[1]},
        "weights": weights,
        "random": {"mask": dropout_mask(case, case["step"], case["first_user"] + np.arange(len(x)))},
        "activations": {name: value for name, value in seen.items() if name == "z" or "coder" in name},
        "loss": {"nll": nll, "kl": kl},
        "gradients": gradients,
        "evaluation": {"z": plain["z"], "logits": plain["logits"]},
        "training": {"updates": UPDATES, "rate": case["rate"], "beta1": BETA1, "beta2": BETA2, "epsilon": EPSILON,
                     "lambda": case["weight_decay"], **history},
        "training/weights": final}
    if case.get("weighted"):
        parts["input"]["values"] = x[x > 0.0]
    if noise is not None:
        parts["random"]["noise"] = noise
    if f is not None:
        parts["input"].update({"feature_indptr": np.concatenate([[0], np.cumsum(f.sum(axis=1))]),
                               "feature_indices": np.nonzero(f)[1]})
        parts["evaluation"]["cold_logits"] = forward(case, weights, 0.0 * x, None)["logits"]
    return {f"{part}/{name}": value for part, entries in parts.items() for name, value in entries.items()}


def main():
    random = np.random.RandomState(20181)
    entries = {"cases": len(CASES)}
    for number, case in enumerate(CASES):
        entries.update({f"case_{number}/{name}": value for name, value in reference_of(case, random).items()})
    if sys.argv[1:] != ["--check"]:
        with h5py.File(OUTPUT, "w") as file:
            for name, value in entries.items():
                file.create_dataset(name, data=np.atleast_1d(value), track_times=False)
        return
    with h5py.File(OUTPUT, "r") as file:
        stored = []
        file.visititems(lambda name, entry: stored.append(name) if isinstance(entry, h5py.Dataset) else None)
        assert sorted(stored) == sorted(entries)
        for name, value in entries.items():
            np.testing.assert_allclose(file[name][:], np.atleast_1d(value), rtol=1e-10, atol=1e-10, err_msg=name)
    print(f"{OUTPUT}: {len(entries)} entries agree")


if __name__ == "__main__":
    main()
