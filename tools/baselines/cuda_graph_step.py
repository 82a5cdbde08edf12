"""GPU optimizations of the PyTorch baseline: a compiled softmax, and a training step as a CUDA graph."""

import math

import torch


def softmax_gradient(logits, lengths):
    """Returns log(sum(exp)) of each row, and N_u softmax in the dtype of the logits; compiles to one kernel."""
    wide = logits.float()
    log_sums = torch.logsumexp(wide, dim=1)
    gradient = torch.exp(wide - log_sums.unsqueeze(1)) * lengths.float().unsqueeze(1)
    return log_sums, gradient.to(logits.dtype)


class CapturedStep:
    """A training step over padded interactions, captured as a CUDA graph. For speed measurements only: beta and Adam's
    epsilon keep their values at capture time."""

    def __init__(self, model, adam, rows, options):
        self.model, self.adam, self.rows = model, adam, rows
        lengths = rows.lengths.double()
        spread = lengths.std().item() if rows.count > 1 else 0.0
        wanted = options.batch * lengths.mean().item() + 6.0 * spread * math.sqrt(options.batch) + 1024
        self.capacity = min(int(wanted), int(lengths.topk(min(options.batch, rows.count))[0].sum().item()))
        self.users = torch.zeros(options.batch, dtype=torch.int64, device=rows.indices.device)
        self.beta = min(options.anneal_cap, 1000.0 / options.anneal_steps)
        self.graph = None

    def eager(self):
        """Runs the step without the graph."""
        loss, _, _ = self.model.loss(*self.rows.gather_padded(self.users, self.capacity), self.beta)
        loss.backward()
        self.adam.step()

    def capture(self):
        """Captures the graph after three warm-up steps. Gradients are then in the memory pool of the graph."""
        self.model.train()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.model.zero_grad(set_to_none=True)
                self.eager()
        torch.cuda.current_stream().wait_stream(stream)
        self.model.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.eager()

    def run(self, users):
        """Replays the step for these users."""
        self.users.copy_(users)
        self.graph.replay()


def captured_step(model, adam, rows, options):
    """Returns the step as a CUDA graph, or None, and its state: on, off, or the reason of the failure."""
    if options.device != "cuda" or options.graph == "off":
        return None, "off"
    if options.batch > rows.count:
        return None, "off: fewer users than a batch"
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    try:
        step = CapturedStep(model, adam, rows, options)
        step.users.copy_(torch.arange(options.batch, device=step.users.device))
        step.capture()
        torch.cuda.synchronize()
        return step, "on"
    except (RuntimeError, AttributeError, NotImplementedError) as error:
        torch.cuda.synchronize()
        model.zero_grad(set_to_none=True)
        model.load_state_dict(before)
        return None, "failed: " + str(error).splitlines()[0]


def compile_kernel(model, options):
    """Compiles and tries the softmax with its gradient, if requested. Returns on, off, or the reason of the failure."""
    if options.compile == "off" or (options.compile == "auto" and options.device != "cuda"):
        return "off"
    try:
        kernel = torch.compile(softmax_gradient, dynamic=False)
        kernel(torch.zeros(options.batch, 64, dtype=model.dtype, device=options.device),
               torch.ones(options.batch, dtype=torch.int64, device=options.device))
        model.kernel = kernel
        return "on"
    except Exception as error:  # a compiler, or its absence, may raise any exception
        return "failed: " + (str(error).splitlines() or [type(error).__name__])[0]
