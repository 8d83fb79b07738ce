"""Writes tests/train/golden_optimizers.inc: what PyTorch's optimizers make of a fixed parameter and
fixed gradients. Run by hand: python3 tools/golden/optimizers.py > tests/train/golden_optimizers.inc
"""
import torch

STEPS = 5
START = [0.5, -1.25, 2.0, 0.0, -0.03125]

CASES = [
    ("sgd", dict(lr=0.1, momentum=0.0), torch.optim.SGD),
    ("sgd with momentum", dict(lr=0.05, momentum=0.9), torch.optim.SGD),
    ("sgd with decay", dict(lr=0.05, momentum=0.9, weight_decay=0.01), torch.optim.SGD),
    ("nesterov", dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01), torch.optim.SGD),
    ("adam", dict(lr=0.01), torch.optim.Adam),
    ("adam with decay", dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
     torch.optim.Adam),
    ("adamw", dict(lr=0.01, weight_decay=0.1), torch.optim.AdamW),
    ("sgd with dampening", dict(lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.01),
     torch.optim.SGD),
    ("sgd with dampening and no momentum", dict(lr=0.05, dampening=0.3), torch.optim.SGD),
    ("adam with amsgrad", dict(lr=0.01, betas=(0.8, 0.5), amsgrad=True), torch.optim.Adam),
    ("adamw with amsgrad", dict(lr=0.01, betas=(0.8, 0.5), weight_decay=0.1, amsgrad=True),
     torch.optim.AdamW),
    ("rmsprop", dict(lr=0.01), torch.optim.RMSprop),
    ("rmsprop with momentum", dict(lr=0.01, alpha=0.9, momentum=0.9, weight_decay=0.1),
     torch.optim.RMSprop),
    ("rmsprop centred", dict(lr=0.01, alpha=0.9, centered=True), torch.optim.RMSprop),
    ("rmsprop centred with momentum", dict(lr=0.01, eps=1e-6, momentum=0.5, centered=True),
     torch.optim.RMSprop),
]


def gradient(step):
    return [((3 * i + 7 * step) % 11 - 5) / 4 for i in range(len(START))]


def main():
    print("// Made by tools/golden/optimizers.py with PyTorch", torch.__version__.split("+")[0])
    for name, options, cls in CASES:
        w = torch.tensor(START, dtype=torch.float64, requires_grad=True)
        optimizer = cls([w], **options)
        for step in range(STEPS):
            w.grad = torch.tensor(gradient(step), dtype=torch.float64)
            optimizer.step()
        values = ", ".join(f"{v:.12g}" for v in w.tolist())
        print(f'{{"{name}", {{{values}}}}},')


main()
