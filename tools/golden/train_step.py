"""One training step in PyTorch, in double: what tests/models/train_step_test.cpp compares ours with.

usage, for resnet18, mobilenet_v2 and vit (four layers):
  ndtrain model build NAME -o NAME.onnx --classes 10 --img-size 64 --seed 1
  train_step.py NAME NAME.onnx > tests/models/golden/NAME.txt
Debian: python3-torch python3-torchvision python3-onnx python3-numpy

The weights come from the ONNX file: its initialisers have the names of torchvision's state_dict. The
batch is BATCH pictures of coarse and fine noise (pictures() below: of fine noise alone all pictures
look the same to the deeper layers, where normalisation then magnifies rounding errors); the label of
picture n is mix(LABELS + n) % classes. Dropout is off, normalisation trains. Each line is

  loss VALUE
  gradient NAME NORM P0 P1 P2 P3      of the mean cross-entropy with respect to a parameter
  state NAME NORM P0 P1 P2 P3         a running statistic after the step

NORM is the 2-norm. Pk is the dot product with signs: that of element i is + where bit 60 + k of
mix(fnv1a(NAME) + i) is set. The root of the mean of (Pk - P'k)^2 over k estimates the 2-norm of the
difference of two vectors, whatever it is.
"""
import sys

import numpy as np
import onnx
import torch
import torchvision.models as tv
from onnx import numpy_helper
from torchvision.models.vision_transformer import VisionTransformer

BATCH = 8
CELL = 16  # side of a cell of the coarse noise
CELLS = 1 << 32
LABELS = 1 << 40
MASK = (1 << 64) - 1


def mix(x):
    """SplitMix64's output for the state x, elementwise."""
    with np.errstate(over="ignore"):
        z = np.asarray(x, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def unit(i):
    """24 random bits as a number in [-1, 1): exact in single precision."""
    return (mix(i) >> np.uint64(40)).astype(np.float64) / 2**23 - 1


def pictures(size):
    """Pixel (n, c, y, x), number i of the flat batch, is unit(i) / 4 plus unit(CELLS + its cell's number) in single precision."""
    n, c, y, x = np.indices((BATCH, 3, size, size))
    per_side = -(-size // CELL)
    cell = ((n * 3 + c) * per_side + y // CELL) * per_side + x // CELL
    fine = unit(np.arange(BATCH * 3 * size * size)).reshape(BATCH, 3, size, size)
    return (fine / 4 + unit(CELLS + cell)).astype(np.float32).astype(np.float64)


def fnv1a(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 & MASK
    return h


def line(kind, name, tensor):
    v = tensor.detach().numpy().reshape(-1)
    with np.errstate(over="ignore"):
        bits = mix(np.uint64(fnv1a(name)) + np.arange(v.size, dtype=np.uint64))
    numbers = [np.linalg.norm(v)]
    for k in range(4):
        signs = ((bits >> np.uint64(60 + k)) & np.uint64(1)).astype(np.float64) * 2 - 1
        numbers.append(signs @ v)
    print(kind, name, *(f"{x:.8g}" for x in numbers))


def make(name, size, classes):
    if name == "vit":
        return VisionTransformer(image_size=size, patch_size=16, num_layers=4, num_heads=3, hidden_dim=192,
                                 mlp_dim=768, num_classes=classes)
    return getattr(tv, name)(num_classes=classes)


def main():
    name, path = sys.argv[1:3]
    graph = onnx.load(path).graph
    size = graph.input[0].type.tensor_type.shape.dim[2].dim_value
    classes = graph.output[0].type.tensor_type.shape.dim[1].dim_value
    weights = {t.name: torch.tensor(numpy_helper.to_array(t)) for t in graph.initializer}
    net = make(name, size, classes).double()
    wanted = {k for k in net.state_dict() if not k.endswith("num_batches_tracked")}
    missing, _ = net.load_state_dict({k: v for k, v in weights.items() if k in wanted}, strict=False)
    missing = [k for k in missing if k in wanted]
    extra = [k for k, v in weights.items() if k not in wanted and v.is_floating_point()]
    if missing or extra:
        sys.exit(f"weights do not match: missing {missing}, extra {extra}")
    net.train()
    for m in net.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0

    x = torch.tensor(pictures(size))
    y = torch.tensor((mix(LABELS + np.arange(BATCH)) % np.uint64(classes)).astype(np.int64))
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    print("loss", f"{loss.item():.8g}")
    for k, p in net.named_parameters():
        line("gradient", k, p.grad)
    for k, b in net.named_buffers():
        if not k.endswith("num_batches_tracked"):
            line("state", k, b)


main()
