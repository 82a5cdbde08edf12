#!/usr/bin/env python3
"""An optimized Mult-VAE in PyTorch: the baseline that vaecf_dist is compared with.

It has the same model, loss, annealing, initialization, optimizer, split and metrics as vaecf_dist (Liang et al., WWW
2018), but independent code and random numbers. The sparse input is an embedding bag over the kept items. The output
layer is dense, and its softmax gradient overwrites the log-probabilities. Adam has TensorFlow's epsilon. Runs on CPU or
GPU. Requires PyTorch 1.13 to 2.x and NumPy, and h5py for --data FILE.h5.

On a GPU all data are resident, bf16 products use fp32 master weights cast on the fly (as in autocast), the softmax
with its gradient is one kernel by torch.compile, and --benchmark runs the whole step as a CUDA graph, with the
interactions padded to a fixed number. If this PyTorch cannot compile or capture, the run reports this and continues
without; --compile off and --graph off disable both. Steps are timed in blocks, so that the host can run ahead.

    torch_multvae.py --data data/ml1m.h5 --epochs 200
    torch_multvae.py --data ml-1m/ratings.dat --validation-users 500 --test-users 500 --epochs 200
    torch_multvae.py --synthetic-users 20000 --benchmark --precision bf16 --threads 2
    torch_multvae.py --data data/ml20m.h5 --device cuda --benchmark --precision bf16 --batch 24576

Prints JSON, one object per line: data, one epoch per epoch, then test or benchmark.
"""

import argparse
import ctypes
import json
import math
import resource
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

from cuda_graph_step import captured_step, compile_kernel
from dataset import load_hdf5, read_ratings, split_liang2018, synthesize


# Data on the device.

class Rows:
    """A CSR matrix resident on the device."""

    def __init__(self, matrix, device):
        self.indptr = torch.from_numpy(matrix[0]).to(device)
        self.indices = torch.from_numpy(matrix[1]).to(device)
        self.lengths = self.indptr[1:] - self.indptr[:-1]
        self.count = len(matrix[0]) - 1

    def gather(self, users):
        """Returns the row in the batch and the item of each entry, the row lengths, and None."""
        lengths = self.lengths[users]
        ends = lengths.cumsum(0)
        rows = torch.repeat_interleave(torch.arange(len(users), device=lengths.device), lengths)
        entries = torch.arange(len(rows), device=rows.device) + (self.indptr[users] - ends + lengths)[rows]
        return rows, self.indices[entries], lengths, None

    def gather_padded(self, users, capacity):
        """Like gather(), but padded to `capacity` entries, with a mask of valid entries: no shape depends on the data."""
        lengths = self.lengths[users]
        ends = lengths.cumsum(0)
        slots = torch.arange(capacity, device=lengths.device)
        rows = torch.searchsorted(ends, slots, right=True)
        valid = rows < len(users)
        rows = rows.clamp(max=len(users) - 1)
        entries = torch.where(valid, (self.indptr[users] - ends + lengths)[rows] + slots, torch.zeros_like(slots))
        columns = torch.where(valid, self.indices[entries], torch.zeros_like(slots))
        return rows, columns, lengths, valid


# Model.

class SoftmaxLayer(torch.autograd.Function):
    """Output layer with multinomial loss: the sum over users of -sum_i x_ui log_softmax(h W' + b)_i.

    `kernel`: compiled.softmax_gradient, or None for separate in-place operations. `valid`: None if all entries are valid.
    """

    @staticmethod
    def forward(context, hidden, weight, bias, rows, columns, lengths, valid, dtype, kernel):
        hidden, weight = hidden.to(dtype), weight.to(dtype)
        logits = F.linear(hidden, weight, bias.to(dtype))
        flat = rows * weight.shape[0] + columns
        ones = torch.ones_like(flat, dtype=torch.float32) if valid is None else valid.float()
        if kernel is not None:
            own = (logits.view(-1)[flat].float() * ones).sum(dtype=torch.float64)
            log_sums, gradient = kernel(logits, lengths)
            nll = (log_sums.double() * lengths).sum() - own
            gradient.view(-1).index_add_(0, flat, -ones.to(dtype))
        else:
            gradient = torch.log_softmax(logits.float(), dim=1)
            nll = -(gradient.view(-1)[flat] * ones).sum(dtype=torch.float64)
            gradient.exp_().mul_(lengths.to(gradient.dtype).unsqueeze(1))
            gradient.view(-1).index_add_(0, flat, -ones)
        context.save_for_backward(hidden, weight, gradient.to(dtype), gradient.sum(0, dtype=torch.float32))
        return nll

    @staticmethod
    def backward(context, scale):
        # `scale`, one over the batch size, is applied to the smaller operand of each product.
        hidden, weight, gradient, d_bias = context.saved_tensors
        scale = scale.float()
        d_hidden = gradient.mm(weight).float() * scale
        d_weight = gradient.t().mm(hidden * scale.to(hidden.dtype)).float()
        return d_hidden, d_weight, d_bias * scale, None, None, None, None, None, None


class MultVae(torch.nn.Module):
    def __init__(self, items, hidden, latent, dropout, dtype):
        super().__init__()
        self.keep, self.dtype, self.latent, self.kernel = 1.0 - dropout, dtype, latent, None
        encoder, decoder = [items] + hidden + [2 * latent], [latent] + hidden[::-1] + [items]

        def parameters(*shape):
            return torch.nn.Parameter(torch.empty(*shape))
        self.table = parameters(items, encoder[1])
        self.table_bias = parameters(encoder[1])
        self.encoder = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(encoder[1:-1], encoder[2:]))
        self.decoder = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(decoder[:-1], decoder[1:]))
        for tensor in self.parameters():
            if tensor.dim() == 2:
                torch.nn.init.xavier_uniform_(tensor)
            else:
                torch.nn.init.trunc_normal_(tensor, std=0.001, a=-0.002, b=0.002)

    def dense(self, layer, x):
        return F.linear(x.to(self.dtype), layer.weight.to(self.dtype), layer.bias.to(self.dtype)).float()

    def encode(self, rows, columns, lengths, valid=None):
        """Returns mu, logvar. In training, dropped items are removed from the bag, or have weight 0 if it is padded."""
        kept = torch.rand(len(rows), device=rows.device) < self.keep if self.training and self.keep < 1.0 else None
        weights = None
        if valid is not None:
            weights = (valid if kept is None else valid & kept).float()
            starts = lengths.cumsum(0) - lengths
        else:
            if kept is not None:
                rows, columns = rows[kept], columns[kept]
            starts = torch.searchsorted(rows, torch.arange(len(lengths), device=rows.device))
        scale = lengths.clamp(min=1).float().rsqrt() / (self.keep if self.training else 1.0)
        h = F.embedding_bag(columns, self.table, starts, mode="sum", per_sample_weights=weights)
        h = h * scale.unsqueeze(1) + self.table_bias
        for layer in self.encoder:
            h = self.dense(layer, torch.tanh(h))
        return h[:, :self.latent], h[:, self.latent:]

    def decode(self, z):
        """Returns the last hidden layer; the output layer is part of the loss."""
        for layer in self.decoder[:-1]:
            z = torch.tanh(self.dense(layer, z))
        return z

    def loss(self, rows, columns, lengths, valid, beta):
        """Returns the mean loss per user, and the sums of nll and KL over users."""
        mu, logvar = self.encode(rows, columns, lengths, valid)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        output = self.decoder[-1]
        nll = SoftmaxLayer.apply(self.decode(z), output.weight, output.bias, rows, columns, lengths, valid, self.dtype,
                                 self.kernel)
        kl = 0.5 * (logvar.exp() + mu * mu - 1.0 - logvar).sum(dtype=torch.float64)
        return (nll + beta * kl) / len(lengths), nll.detach(), kl.detach()

    def scores(self, rows, columns, lengths, _):
        """Returns fp32 scores from the latent mean; the user's own items have -inf."""
        mu, _ = self.encode(rows, columns, lengths)
        scores = F.linear(self.decode(mu), self.decoder[-1].weight, self.decoder[-1].bias)
        scores.view(-1)[rows * scores.shape[1] + columns] = -math.inf
        return scores


class TensorFlowAdam:
    """PyTorch's Adam with TensorFlow's epsilon, which is added outside the bias corrections."""

    def __init__(self, parameters, options):
        parameters = list(parameters)
        settings = dict(lr=options.learning_rate, betas=(0.9, options.beta2), eps=1e-8)
        if options.device == "cuda":
            settings["capturable"] = True  # so that a step can be captured in a CUDA graph
        try:
            self.adam = torch.optim.Adam(parameters, fused=True, **settings)
        except (TypeError, RuntimeError):  # this PyTorch has no fused Adam for this device
            self.adam = torch.optim.Adam(parameters, **settings)
        self.beta2, self.updates = options.beta2, 0

    def step(self):
        self.updates += 1
        for group in self.adam.param_groups:
            group["eps"] = 1e-8 / math.sqrt(1.0 - self.beta2**self.updates)
        self.adam.step()


# Metrics.

def best_items(scores, count):
    """Returns the items (B, count) with the highest scores, best first; for equal scores, the lower item first."""
    count = min(count, scores.shape[1])
    values, items = torch.topk(scores, min(count + 1, scores.shape[1]), dim=1)
    ties = ((values[:, 1:] == values[:, :-1]) & (values[:, 1:] > -math.inf)).any(dim=1)
    items = items[:, :count].clone()
    if ties.any():
        items[ties] = torch.sort(scores[ties], dim=1, descending=True, stable=True)[1][:, :count]
    return items


@torch.no_grad()
def evaluate(model, fold_in, held_out, batch):
    """Returns NDCG@100, Recall@20, Recall@50 with standard errors, as means over users with at least one target."""
    model.eval()
    discount = 1.0 / torch.log2(torch.arange(2, 102, dtype=torch.float64, device=fold_in.indices.device))
    ideal = torch.cumsum(discount, 0)
    values = []
    for begin in range(0, fold_in.count, batch):
        users = torch.arange(begin, min(begin + batch, fold_in.count), device=discount.device)
        scores = model.scores(*fold_in.gather(users))
        rows, columns, targets, _ = held_out.gather(users)
        relevant = torch.zeros_like(scores, dtype=torch.bool)
        relevant[rows, columns] = True
        hits = relevant.gather(1, best_items(scores, 100)).double()
        some = targets > 0
        hits, targets = hits[some], targets[some]
        values.append(torch.stack([
            (hits * discount[:hits.shape[1]]).sum(1) / ideal[targets.clamp(max=100) - 1],
            hits[:, :20].sum(1) / targets.clamp(max=20), hits[:, :50].sum(1) / targets.clamp(max=50)]))
    values = torch.cat(values, dim=1)
    result = {"users": values.shape[1]}
    for name, value in zip(("ndcg@100", "recall@20", "recall@50"), values):
        result[name] = value.mean().item()
        result[name + "_se"] = value.std(unbiased=False).item() / math.sqrt(values.shape[1])
    return result


# Runs.

def say(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def batches(count, batch, device):
    order = torch.randperm(count, device=device)
    return [order[begin:begin + batch] for begin in range(0, count, batch)]


def train_step(model, adam, rows, users, options):
    """Runs one update; returns the sums of nll and KL over users, and beta."""
    beta = min(options.anneal_cap, adam.updates / options.anneal_steps)
    model.train()
    loss, nll, kl = model.loss(*rows.gather(users), beta)
    for tensor in model.parameters():
        tensor.grad = None
    loss.backward()
    adam.step()
    return nll, kl, beta


def train(model, adam, data, options):
    """Trains all epochs, then tests the weights of the best validation NDCG@100."""
    best, best_epoch, best_weights = -1.0, 0, None
    for epoch in range(1, options.epochs + 1):
        begin = time.perf_counter()
        sums = torch.zeros(2, dtype=torch.float64, device=options.device)
        for users in batches(data["train"].count, options.batch, options.device):
            nll, kl, beta = train_step(model, adam, data["train"], users, options)
            sums += torch.stack([nll, kl])
        nll, kl = (sums / data["train"].count).tolist()
        seconds = time.perf_counter() - begin
        fields = dict(epoch=epoch, step=adam.updates, nll=nll, kl=kl, loss=nll + beta * kl, beta=beta, seconds=seconds,
                      users_per_second=data["train"].count / seconds)
        if "validation/held_out" in data:
            found = evaluate(model, data["validation/fold_in"], data["validation/held_out"], options.batch)
            fields["validation"] = found
            if found["ndcg@100"] > best:
                best, best_epoch = found["ndcg@100"], epoch
                best_weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        say("epoch", **fields)
    if best_weights is not None:
        model.load_state_dict(best_weights)
    if "test/held_out" in data:
        say("test", best_epoch=best_epoch, validation_ndcg100=best, seed=options.seed, precision=options.precision,
            **evaluate(model, data["test/fold_in"], data["test/held_out"], options.batch))


def benchmark(model, adam, data, options):
    def now():
        if options.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()
    step, graph = captured_step(model, adam, data["train"], options)

    def endless():
        while True:
            for users in batches(data["train"].count, options.batch, options.device):
                if len(users) == min(options.batch, data["train"].count):
                    yield users
    source = endless()

    def run(steps):
        for _ in range(steps):
            users = next(source)
            step.run(users) if step else train_step(model, adam, data["train"], users, options)
    # The host waits for the GPU only after each block of steps, so that the GPU is never idle.
    block = options.block or (20 if options.device == "cuda" else 1)
    run(options.warmup)
    seconds, processor = [], []
    for _ in range(-(-options.steps // block)):
        begin, processor_begin = now(), time.process_time()
        run(block)
        seconds.append((now() - begin) / block)
        processor.append((time.process_time() - processor_begin) / block)
    seconds, users = np.array(seconds), min(options.batch, data["train"].count)
    fields = dict(steps=len(seconds) * block, batch=users, graph=graph, median_ms=1e3 * float(np.median(seconds)),
                  min_ms=1e3 * float(seconds.min()),
                  processor_ms=1e3 * float(np.median(processor)),
                  users_per_second=users * len(seconds) / float(seconds.sum()),
                  users_per_second_median=users / float(np.median(seconds)),
                  users_per_second_best=users / float(seconds.min()))
    if options.device == "cuda":
        fields["peak_device_mib"] = torch.cuda.max_memory_allocated() / 2**20
        fields["gpu"] = torch.cuda.get_device_name()
    say("benchmark", precision=options.precision, compile=options.compiled, device=options.device, threads=torch.get_num_threads(),
        torch=torch.__version__, peak_resident_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, **fields)


def arguments():
    parser = argparse.ArgumentParser(description="Mult-VAE in PyTorch, for comparison with vaecf_dist.")
    add = parser.add_argument
    add("--data", help="dataset of vaecf_dist (.h5), or MovieLens ratings.dat or ratings.csv")
    add("--min-rating", type=float, default=4.0)
    add("--min-user-items", type=int, default=5)
    add("--validation-users", type=int, default=10000)
    add("--test-users", type=int, default=10000)
    add("--split-seed", type=int, default=98765)
    add("--synthetic-users", type=int, default=0, help="number of synthetic users, instead of --data")
    add("--synthetic-items", type=int, default=20108)
    add("--per-user", type=float, default=73)
    add("--hidden", type=int, nargs="*", default=[600])
    add("--latent", type=int, default=200)
    add("--dropout", type=float, default=0.5)
    add("--epochs", type=int, default=200)
    add("--batch", type=int, default=500)
    add("--learning-rate", type=float, default=1e-3)
    add("--beta2", type=float, default=0.999)
    add("--anneal-cap", type=float, default=0.2)
    add("--anneal-steps", type=float, default=200000)
    add("--precision", choices=("fp32", "tf32", "bf16"), default="fp32", help="tf32: CUDA only")
    add("--seed", type=int, default=98765)
    add("--threads", type=int, default=0, help="number of threads; 0: PyTorch's default")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--benchmark", action="store_true", help="time steps instead of training")
    add("--warmup", type=int, default=5, help="warm-up steps of --benchmark")
    add("--steps", type=int, default=30, help="timed steps of --benchmark")
    add("--block", type=int, default=0, help="steps between synchronizations in --benchmark; 0: 20 on a GPU, else 1")
    add("--compile", choices=("auto", "on", "off"), default="auto", help="torch.compile; auto: on a GPU")
    add("--graph", choices=("auto", "off"), default="auto", help="CUDA graph of the step in --benchmark")
    options = parser.parse_args()
    if not options.hidden:
        parser.error("--hidden: must have at least one width")
    if not options.data and not options.synthetic_users:
        parser.error("set --data FILE or --synthetic-users N")
    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    return options


def keep_freed_memory():
    """Makes glibc reuse large blocks, which avoids page faults for hundreds of MB of temporaries in every step."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        for option, value in ((-4, 0), (-1, 2**31 - 1), (-8, 1)):  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_ARENA_MAX
            libc.mallopt(option, value)
    except OSError:
        pass  # another C library


def main():
    options = arguments()
    keep_freed_memory()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
    facts = {}
    if options.synthetic_users:
        items, matrices = synthesize(options)
    elif options.data.endswith((".h5", ".hdf5")):
        items, matrices = load_hdf5(options.data)
    else:
        items, matrices, facts = split_liang2018(*read_ratings(options.data), options)
    data = {name: Rows(matrix, options.device) for name, matrix in matrices.items()}
    facts.update(items=items, train_users=data["train"].count, train_events=len(data["train"].indices))
    say("data", **facts)
    torch.set_flush_denormal(True)  # moments of rare items decay to denormals, which are slow
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    model = MultVae(items, options.hidden, options.latent, options.dropout, dtype).to(options.device)
    options.compiled = compile_kernel(model, options)
    adam = TensorFlowAdam(model.parameters(), options)
    (benchmark if options.benchmark else train)(model, adam, data, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
