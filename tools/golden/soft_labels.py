"""Writes tests/train/golden_soft_labels.inc: loss and gradient of PyTorch's CrossEntropyLoss, of labels of one class and
of two, with class weights and with smoothing. Run by hand:
python3 tools/golden/soft_labels.py > tests/train/golden_soft_labels.inc

A linear classifier of 4 features and 3 classes sees 6 rows. Label i is class i % 3; as a soft label it has (i + 1) / 8,
and class (i + 1) % 3 the rest. What is said is the sum of the losses over the number of rows.
"""
import torch

ROWS, FEATURES, CLASSES = 6, 4, 3
WEIGHTS = [2, 0.5, 1]
CASES = {"weighted": (False, True, 0), "soft": (True, False, 0), "soft and weighted": (True, True, 0),
         "soft and smoothed": (True, False, 0.1)}


def main():
    print("// Made by tools/golden/soft_labels.py with PyTorch", torch.__version__.split("+")[0])
    x = torch.tensor([[((3 * i + 7 * j) % 11 - 5) / 4 for j in range(FEATURES)] for i in range(ROWS)], dtype=torch.float64)
    own = torch.arange(ROWS) % CLASSES
    hard = torch.nn.functional.one_hot(own, CLASSES).double()
    share = ((torch.arange(ROWS) + 1) / 8).double()[:, None]
    mixed = share * hard + (1 - share) * torch.nn.functional.one_hot((own + 1) % CLASSES, CLASSES)
    for name, (soft, weighted, smoothing) in CASES.items():
        w = torch.tensor([[((5 * i + 2 * j) % 7 - 3) / 8 for j in range(FEATURES)] for i in range(CLASSES)],
                         dtype=torch.float64, requires_grad=True)
        loss = torch.nn.CrossEntropyLoss(weight=torch.tensor(WEIGHTS, dtype=torch.float64) if weighted else None,
                                         reduction="sum", label_smoothing=smoothing)
        value = loss(x @ w.T, mixed if soft else own) / ROWS
        value.backward()
        numbers = ", ".join(f"{v:.12g}" for v in w.grad.flatten().tolist())
        print(f'{{"{name}", {str(soft).lower()}, {str(weighted).lower()}, {smoothing}, {value.item():.12g},\n {{{numbers}}}}},')


main()
