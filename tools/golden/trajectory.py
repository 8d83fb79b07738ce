"""Writes tests/parallel/golden_trajectory.inc: what PyTorch makes of a small network in 20 steps of
all rows, in double. Run by hand: python3 tools/golden/trajectory.py > tests/parallel/golden_trajectory.inc

The network is small_net() of tests/train/small_net.h, with normalisation or without; then its
convolution has no bias. Element i of what has the number k is uniform(k, i) below. A shard's rows are
those whose number is the shard's modulo the shards; it has batch statistics of its own, and the
running ones are the mean of what the shards make of them, as DistributedDataParallel would give with
a rank for each, and buffers that are averaged.
"""
import torch
import torch.nn.functional as F

STEPS, ROWS, SIDE = 20, 24, 8
MASK = (1 << 64) - 1
SHAPES = {"conv.w": (8, 1, 3, 3), "conv.b": (8,), "fc.w": (3, 8), "fc.b": (3,)}
OPTIMIZERS = {
    "sgd": lambda w: torch.optim.SGD(w, lr=0.1, momentum=0.9, weight_decay=1e-3),
    "adamw": lambda w: torch.optim.AdamW(w, lr=0.01, weight_decay=0.1),
}


def uniform(k, i):
    """24 bits of SplitMix64 as a number in [-1, 1)."""
    z = ((k << 32) + i + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return ((z ^ (z >> 31)) >> 40) / 2**23 - 1


def filled(k, shape, scale):
    n = torch.Size(shape).numel()
    values = torch.tensor([scale * uniform(k, i) for i in range(n)], dtype=torch.float32)
    return values.double().reshape(shape)


def rows():
    """Stripes across, stripes down, or a chessboard, in noise."""
    x = filled(9, (ROWS, 1, SIDE, SIDE), 0.5)
    r, c = torch.arange(SIDE)[:, None], torch.arange(SIDE)[None, :]
    kinds = [r + 0 * c, c + 0 * r, r + c]
    signs = torch.stack([1.0 - 2.0 * (kinds[n % 3] % 2) for n in range(ROWS)])
    return x + signs[:, None].double(), torch.arange(ROWS) % 3


def forward(w, x, running):
    y = F.conv2d(x, w["conv.w"], w.get("conv.b"), padding=1)
    if running:
        y = F.batch_norm(y, running[0], running[1], w["bn.scale"], w["bn.bias"], training=True)
    return F.relu(y).mean((2, 3)) @ w["fc.w"].T + w["fc.b"]


def train(optimizer, shards, normalised):
    w = {name: filled(k, shape, 0.3) for k, (name, shape) in enumerate(SHAPES.items())}
    running = None
    if normalised:
        del w["conv.b"]
        w["bn.scale"], w["bn.bias"] = torch.ones(8).double(), torch.zeros(8).double()
        running = torch.zeros(8).double(), torch.ones(8).double()
    for t in w.values():
        t.requires_grad_()
    step = OPTIMIZERS[optimizer](list(w.values()))
    x, y = rows()
    losses = []
    for _ in range(STEPS):
        step.zero_grad()
        loss, after = 0, []
        for v in range(shards):
            after.append([r.clone() for r in running] if normalised else None)
            of = slice(v, None, shards)
            loss = loss + F.cross_entropy(forward(w, x[of], after[v]), y[of], reduction="sum") / ROWS
        loss.backward()
        step.step()
        losses.append(loss.item())
        if normalised:
            running = [torch.stack(r).mean(0) for r in zip(*after)]
    if normalised:
        w["bn.mean"], w["bn.var"] = running
    return losses, w


def braces(values):
    return "{" + ", ".join(f"{v:.9g}" for v in values) + "}"


def main():
    print("// Made by tools/golden/trajectory.py with PyTorch", torch.__version__.split("+")[0])
    for optimizer in OPTIMIZERS:
        for shards, normalised in ((4, False), (1, True), (2, True)):
            losses, w = train(optimizer, shards, normalised)
            print(f'{{"{optimizer}", {shards}, {str(normalised).lower()},\n {braces(losses)},\n {{')
            for name, t in sorted(w.items()):
                print(f'  {{"{name}", {braces(t.detach().reshape(-1).tolist())}}},')
            print(" }},")


main()
