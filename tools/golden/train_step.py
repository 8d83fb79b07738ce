"""One training step in PyTorch, in double: what tests/models/train_step_test.cpp compares ours with.

usage, for resnet18, mobilenet_v2 and vit (four layers):
  ndtrain model build NAME -o NAME.onnx --classes 10 --img-size 64 --seed 1
  train_step.py NAME NAME.onnx BATCH [SEEDS] > tests/models/golden/NAME.txt
Debian: python3-torch python3-torchvision python3-onnx python3-numpy

The weights come from the ONNX file: its initialisers have the names of torchvision's state_dict. The
batch is BATCH pictures of coarse and fine noise (pictures() below: of fine noise alone all pictures
look the same to the deeper layers, where normalisation then magnifies rounding errors); the label of
picture n is mix(LABELS + n) % classes. Dropout is off, normalisation trains.

Where an activation lies within a rounding error of a kink (Relu's 0, two equal candidates of a
maximum), single precision takes the other side by chance, and one such activation in a thousand
thousand is enough to change gradients by a thousandth. So the shift of every normalisation is 2 for
even and -2 for odd channels, where few activations come near 0; and of the seeds 0 to SEEDS - 1 for
the pictures the one that keeps farthest from all kinks is taken. Its margin is printed, in rounding
errors. Each line is

  pictures SIZE BATCH SEED
  margin VALUE                        inf without kinks
  loss VALUE
  gradient NAME NORM P0 P1 P2 P3      of the mean cross-entropy with respect to a parameter
  state NAME NORM P0 P1 P2 P3         a running statistic after the step

NORM is the 2-norm. Pk is the dot product with signs: that of element i is + where bit 60 + k of
mix(fnv1a(NAME) + i) is set. The root of the mean of (Pk - P'k)^2 over k estimates the 2-norm of the
difference of two vectors, whatever it is.
"""
import copy
import sys

import numpy as np
import onnx
import torch
import torchvision.models as tv
from onnx import numpy_helper
from torchvision.models.vision_transformer import VisionTransformer

CELL = 16  # side of a cell of the coarse noise
CELLS = 1 << 32
SEED = 1 << 40
LABELS = 1 << 62
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


def pictures(size, batch, seed):
    """Pixel (n, c, y, x), number i of the flat batch, is unit(seed * SEED + i) / 4 plus
    unit(seed * SEED + CELLS + its cell's number), in single precision."""
    n, c, y, x = np.indices((batch, 3, size, size))
    per_side = -(-size // CELL)
    cell = ((n * 3 + c) * per_side + y // CELL) * per_side + x // CELL
    fine = unit(seed * SEED + np.arange(n.size)).reshape(n.shape)
    pixels = fine / 4 + unit(seed * SEED + CELLS + cell)
    return torch.tensor(pixels.astype(np.float32).astype(np.float64))


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


def kink_distance(module, x):
    """How far the input of a layer is from where the layer's derivative jumps."""
    if isinstance(module, torch.nn.ReLU):
        return x.abs()
    if isinstance(module, torch.nn.ReLU6):
        return torch.minimum(x.abs(), (x - 6).abs())
    windows = torch.nn.functional.pad(x, (module.padding,) * 4, value=-np.inf)
    for axis in (2, 3):
        windows = windows.unfold(axis, module.kernel_size, module.stride)
    first, second = windows.flatten(4).topk(2, dim=4).values.unbind(4)
    # Behind Relu nothing flows back to a 0.
    return torch.where(first > 0, (first - second) / 2, np.inf)


def kinked_inputs(net, x):
    kinked = [m for m in net.modules() if isinstance(m, (torch.nn.ReLU, torch.nn.ReLU6, torch.nn.MaxPool2d))]
    inputs = []
    hooks = [m.register_forward_pre_hook(lambda m, x: inputs.append((m, x[0].double()))) for m in kinked]
    with torch.no_grad():
        copy.deepcopy(net)(x)
    for h in hooks:
        h.remove()
    return inputs


def margin_of(net, x):
    """The least distance from a kink, in rounding errors of its channel: what single precision differs by."""
    margin = np.inf
    for (module, exact), (_, rounded) in zip(kinked_inputs(net, x), kinked_inputs(copy.deepcopy(net).float(), x.float())):
        error = (rounded - exact).abs().amax((0, 2, 3), keepdim=True)
        margin = min(margin, (kink_distance(module, exact) / error).min().item())
    return margin


def farthest_from_kinks(net, size, batch, seeds):
    results = []
    for seed in range(seeds):
        results.append((margin_of(net, pictures(size, batch, seed)), seed))
        print(results[-1], file=sys.stderr)
    return max(results)


def load(name, path):
    graph = onnx.load(path).graph
    size = graph.input[0].type.tensor_type.shape.dim[2].dim_value
    classes = graph.output[0].type.tensor_type.shape.dim[1].dim_value
    weights = {t.name: torch.tensor(numpy_helper.to_array(t)) for t in graph.initializer}
    net = make(name, size, classes).double()
    wanted = {k for k in net.state_dict() if not k.endswith("num_batches_tracked")}
    net.load_state_dict({k: v for k, v in weights.items() if k in wanted}, strict=False)
    missing = wanted - set(weights)
    extra = [k for k, v in weights.items() if k not in wanted and v.is_floating_point()]
    if missing or extra:
        sys.exit(f"weights do not match: missing {missing}, extra {extra}")
    net.train()
    for m in net.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0
        if isinstance(m, (torch.nn.ReLU, torch.nn.ReLU6)):
            m.inplace = False
        if isinstance(m, torch.nn.BatchNorm2d):
            m.bias.data = 2.0 - 4.0 * (torch.arange(m.num_features) % 2).double()
    return net, size, classes


def main():
    name, path, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
    net, size, classes = load(name, path)
    margin, seed = farthest_from_kinks(net, size, batch, int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    y = torch.tensor((mix(LABELS + np.arange(batch)) % np.uint64(classes)).astype(np.int64))
    loss = torch.nn.functional.cross_entropy(net(pictures(size, batch, seed)), y)
    loss.backward()
    print("pictures", size, batch, seed)
    print("margin", f"{margin:.2g}")
    print("loss", f"{loss.item():.8g}")
    for k, p in net.named_parameters():
        line("gradient", k, p.grad)
    for k, b in net.named_buffers():
        if not k.endswith("num_batches_tracked"):
            line("state", k, b)


main()
