#!/usr/bin/env python3
"""Makes multvae_reference.txt: what small Mult-VAE and Mult-DAE models compute, in fp64.

Independent of the C++ program: the forward pass is written in NumPy and in PyTorch, gradients come from
PyTorch's autograd and are compared with a backward pass written by hand, dropout masks and latent noise come
from a Philox4x32-10 written here and held to Random123's known-answer vectors.
Model: Liang et al., "Variational Autoencoders for Collaborative Filtering", WWW 2018.

    make_reference.py            writes multvae_reference.txt beside this script
    make_reference.py --check    computes everything again and compares with the file (relative 1e-10)

File format, for a reader of a few lines (`stream >> name >> ndim`): lines starting with # at the top are
comments; then entries, each

    NAME NDIM DIM_1 .. DIM_NDIM
    VALUE VALUE ...               product(DIMS) numbers, row-major, "%.17g"; one number where NDIM is 0

NAME is CASE/ENTRY; `cases` (first entry) holds their count, and CASE is case_0, case_1, ... Entries:

    config/{sampled, hidden, latent, items, users, first_user, seed}    sampled: 1 mult_vae, 0 mult_dae
    config/{step, beta, keep}                       of the single step below; user number = first_user + row
    config/keep_history                             share of users whose items are not all dropped
    config/features                                 F, columns of the users' features; 0: the model knows none
    input/{indptr, indices}                         CSR of the users' items, every value 1
    input/{feature_indptr, feature_indices}         CSR of the users' features (F > 0 only)
    weights/TENSOR                                  exact in fp32; TENSOR = encoder_1/weight (inputs, outputs),
                                                    encoder_1/bias (outputs) ... decoder_1/weight ... as in checkpoints
                                                    encoder_1/feature_weight (F, outputs) where F > 0
    random/mask (B, I)                              1 = kept, for every item, the user's or not; all 0 where
                                                    the whole history is dropped
    random/noise (B, L)                             eps (mult_vae only)
    activations/input (B, I)                        normalized, dropped out, kept values divided by keep
    activations/encoder_k                           after tanh; the last of mult_vae is [mu | logvar], no tanh
    activations/{mu, logvar, z}                     (B, L); mult_dae has z only, equal to its last encoder
    activations/decoder_k                           after tanh, k = 1 .. number of hidden layers
    activations/{logits, log_softmax}               (B, I)
    loss/{nll, kl}                                  sums over users (kl without beta)
    gradients/TENSOR                                of nll + beta * kl, sums over users, no weight decay
    evaluation/{z, logits}                          without dropout, z = mu
    evaluation/cold_logits                          the same of users without items (F > 0 only)
    training/{updates, rate, beta1, beta2, epsilon, lambda, cap, annealing_steps}
    training/{beta, nll, kl, loss, penalty}         per update t = 0 .. 9, before it; nll, kl: means per user;
                                                    loss = nll + beta kl; penalty = lambda sum ||W||^2, not in loss
    training/weights/TENSOR                         after the last update
    training/{mask_0, noise_0}                      draws of update 0, in case masks must be told apart by step

Training starts from `weights`, takes all users as one batch, draws with step = updates done before, and uses
Adam in TensorFlow's form: rate sqrt(1 - beta2^t) / (1 - beta1^t), epsilon outside the correction.
"""

import argparse
import os
import sys

import numpy as np
import torch

OUTPUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "multvae_reference.txt")
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
]
ITEMS_PER_USER = [3, 0, 9, 1, 5, 2, 8, 4, 7, 6, 1, 9, 2]
FEATURES_PER_USER = [2, 3, 0, 1, 6, 2, 2, 0, 4, 2, 1, 2, 5]
ITEMS, UPDATES = 37, 10
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


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


def check_philox():
    """Random123's kat_vectors."""
    for counter, key, expected in [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0],
         [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
    ]:
        got = philox4x32_10(np.array(counter, dtype=np.uint64), key)
        assert [int(word) for word in got] == expected, (counter, [hex(int(word)) for word in got])


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


def make_input(random):
    """Dense binary X (B, I). No user holds item 17."""
    x = np.zeros((len(ITEMS_PER_USER), ITEMS))
    choices = np.delete(np.arange(ITEMS), 17)
    for user, count in enumerate(ITEMS_PER_USER):
        x[user, random.choice(choices, count, replace=False)] = 1.0
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


def forward(case, weights, source, noise, math):
    """The forward pass over `math` (numpy or torch): activations by name. noise None: z = mu."""
    depth, latent = len(case["hidden"]), case["latent"]
    seen, h = {}, source
    for k in range(1, depth + 2):
        h = h @ weights[f"encoder_{k}/weight"] + weights[f"encoder_{k}/bias"]
        if k == 1 and case["beside"] is not None:
            beside = case["beside"] if math is np else torch.tensor(case["beside"])
            h = h + beside @ weights["encoder_1/feature_weight"]
        if k <= depth or not case["sampled"]:
            h = math.tanh(h)
        seen[f"encoder_{k}"] = h
    if case["sampled"]:
        seen["mu"], seen["logvar"] = h[:, :latent], h[:, latent:]
        h = seen["mu"] if noise is None else seen["mu"] + noise * math.exp(0.5 * seen["logvar"])
    seen["z"] = h
    for k in range(1, depth + 1):
        h = math.tanh(h @ weights[f"decoder_{k}/weight"] + weights[f"decoder_{k}/bias"])
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


def backward_by_hand(case, weights, source, x, noise, beta, seen):
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
    return gradients


def gradients_by_autograd(case, weights, source, x, noise, beta):
    """Sums over users, by PyTorch's own functions: nll, kl, gradients by tensor name."""
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    seen = forward(case, leaves, torch.tensor(source), None if noise is None else torch.tensor(noise), torch)
    nll = -(torch.tensor(x) * torch.log_softmax(seen["logits"], dim=1)).sum()
    kl = torch.zeros((), dtype=torch.float64)
    if case["sampled"]:
        posterior = torch.distributions.Normal(seen["mu"], torch.exp(0.5 * seen["logvar"]))
        kl = torch.distributions.kl_divergence(posterior, torch.distributions.Normal(0.0, 1.0)).sum()
    (nll + beta * kl).backward()
    return nll.item(), kl.item(), {name: leaf.grad.numpy() for name, leaf in leaves.items()}


def assert_close(name, a, b, tolerance=1e-12):
    error = np.max(np.abs(np.asarray(a) - np.asarray(b)), initial=0.0)
    assert error <= tolerance * max(1.0, np.max(np.abs(b), initial=0.0)), f"{name}: differs by {error}"


def step_both_ways(case, weights, x, step, beta):
    """One forward and backward pass, NumPy's held to PyTorch's: source, noise, activations, nll, kl, gradients."""
    users = case["first_user"] + np.arange(len(x))
    source = normalized(x, dropout_mask(case, step, users), case["keep"])
    noise = latent_noise(case, step, users) if case["sampled"] else None
    seen = forward(case, weights, source, noise, np)
    nll, kl = losses(seen, x)
    torch_nll, torch_kl, gradients = gradients_by_autograd(case, weights, source, x, noise, beta)
    assert_close("nll", nll, torch_nll)
    assert_close("kl", kl, torch_kl)
    for name, value in backward_by_hand(case, weights, source, x, noise, beta, seen).items():
        assert_close(name, value, gradients[name])
    return source, noise, seen, torch_nll, torch_kl, gradients


def train(case, weights, x):
    weights = {name: value.copy() for name, value in weights.items()}
    first = {name: np.zeros_like(value) for name, value in weights.items()}
    second = {name: np.zeros_like(value) for name, value in weights.items()}
    history = {name: [] for name in ("beta", "nll", "kl", "loss", "penalty")}
    for done in range(UPDATES):
        beta = min(case["cap"], done / case["annealing_steps"])
        _, _, _, nll, kl, gradients = step_both_ways(case, weights, x, done, beta)
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
    x, weights, f = make_input(random), make_weights(case, random), make_features(case, random)
    case["beside"] = None if f is None else normalized(f, 1.0, 1.0)
    users = case["first_user"] + np.arange(len(x))
    result = {f"config/{name}": case[name] for name in
              ("sampled", "hidden", "latent", "first_user", "seed", "step", "beta", "keep")}
    result.update({"config/items": ITEMS, "config/users": len(x), "config/features": case.get("features", 0),
                   "config/keep_history": case.get("keep_history", 1.0)})
    result["input/indptr"] = np.concatenate([[0], np.cumsum(x.sum(axis=1))])
    result["input/indices"] = np.nonzero(x)[1]
    if f is not None:
        result["input/feature_indptr"] = np.concatenate([[0], np.cumsum(f.sum(axis=1))])
        result["input/feature_indices"] = np.nonzero(f)[1]
    result.update({f"weights/{name}": value for name, value in weights.items()})

    source, noise, seen, nll, kl, gradients = step_both_ways(case, weights, x, case["step"], case["beta"])
    result["random/mask"] = dropout_mask(case, case["step"], users)
    if noise is not None:
        result["random/noise"] = noise
    result["activations/input"] = source
    result.update({f"activations/{name}": value for name, value in seen.items()})
    result["activations/log_softmax"] = log_softmax(seen["logits"])
    result.update({"loss/nll": nll, "loss/kl": kl})
    result.update({f"gradients/{name}": value for name, value in gradients.items()})

    plain = forward(case, weights, normalized(x, 1.0, 1.0), None, np)
    result.update({"evaluation/z": plain["z"], "evaluation/logits": plain["logits"]})
    if f is not None:
        result["evaluation/cold_logits"] = forward(case, weights, 0.0 * x, None, np)["logits"]

    history, final = train(case, weights, x)
    result.update({"training/updates": UPDATES, "training/rate": case["rate"], "training/beta1": BETA1,
                   "training/beta2": BETA2, "training/epsilon": EPSILON, "training/lambda": case["weight_decay"],
                   "training/cap": case["cap"], "training/annealing_steps": case["annealing_steps"]})
    result.update({f"training/{name}": value for name, value in history.items()})
    result.update({f"training/weights/{name}": value for name, value in final.items()})
    result["training/mask_0"] = dropout_mask(case, 0, users)
    if noise is not None:
        result["training/noise_0"] = latent_noise(case, 0, users)
    return result


def write(path, entries):
    with open(path, "w") as file:
        file.write("# Made by make_reference.py, which says what every entry is; do not edit.\n")
        for name, value in entries.items():
            value = np.asarray(value)
            file.write(" ".join([name, str(value.ndim), *map(str, value.shape)]) + "\n")
            rows = value.reshape(-1, value.shape[-1]) if value.ndim else value.reshape(1, 1)
            for row in rows:
                file.write(" ".join("%.17g" % number for number in row) + "\n")


def read(path):
    with open(path) as file:
        words = [word for line in file if not line.startswith("#") for word in line.split()]
    entries, at = {}, 0
    while at < len(words):
        name, ndim = words[at], int(words[at + 1])
        shape = tuple(int(word) for word in words[at + 2:at + 2 + ndim])
        at += 2 + ndim
        size = int(np.prod(shape))
        entries[name] = np.array([float(word) for word in words[at:at + size]]).reshape(shape)
        at += size
    return entries


def main():
    parser = argparse.ArgumentParser(description="Makes the Mult-VAE reference file.")
    parser.add_argument("--output", default=OUTPUT)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    check_philox()
    random = np.random.RandomState(20181)
    entries = {"cases": len(CASES)}
    for number, case in enumerate(CASES):
        entries.update({f"case_{number}/{name}": value for name, value in reference_of(case, random).items()})
    if not arguments.check:
        write(arguments.output, entries)
        return 0
    stored = read(arguments.output)
    assert list(stored) == list(entries), "the file holds other entries"
    for name, value in entries.items():
        assert stored[name].shape == np.shape(value), f"{name}: shape {stored[name].shape}"
        assert_close(name, stored[name], value, 1e-10)
    print(f"{arguments.output}: {len(entries)} entries agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
