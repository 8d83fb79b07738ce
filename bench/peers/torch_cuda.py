"""On an NVIDIA GPU, against PyTorch in channels-last and torch.compile, in turn: forward passes and training steps.

usage: torch_cuda.py forward|train NDTRAIN MODEL.onnx NET [--batch 128] [--precision f16] [--seconds 5] [--rounds 5]
NET is resnet50, resnext101_32x4d, vit_b_16, or another that torchvision has, if it is there. The data lies on the
device on both sides. A forward pass of batch 1 is compared with mode="reduce-overhead". Prints PyTorch's versions.
"""
import argparse
import statistics
import time

import torch
from torch import nn

from peer import alternate, ndtrain, spread

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class Bottleneck(nn.Module):
    def __init__(self, inputs, planes, stride, groups, width):
        super().__init__()
        inner = int(planes * width / 64) * groups
        self.convs = nn.Sequential(
            nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(inplace=True),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=groups, bias=False), nn.BatchNorm2d(inner),
            nn.ReLU(inplace=True), nn.Conv2d(inner, 4 * planes, 1, bias=False), nn.BatchNorm2d(4 * planes))
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != 4 * planes:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, 4 * planes, 1, stride, bias=False), nn.BatchNorm2d(4 * planes))

    def forward(self, x):
        return torch.relu(self.convs(x) + self.shortcut(x))


def resnet(depths, groups=1, width=64):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, depth in enumerate(depths):
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Bottleneck(inputs, 64 << stage, stride, groups, width))
            inputs = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


class Vit(nn.Module):
    def __init__(self, patch=16, depth=12, width=768, heads=12, side=224):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", 1e-6, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width, 1e-6), enable_nested_tensor=False)
        self.head = nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.layers(x)[:, 0])


def net(name):
    if name == "resnet50":
        return resnet([3, 4, 6, 3])
    if name == "resnext101_32x4d":
        return resnet([3, 4, 23, 3], 32, 4)
    if name == "vit_b_16":
        return Vit()
    import torchvision
    return getattr(torchvision.models, name)(weights=None, **({"init_weights": False} if name == "inception_v3" else {}))


def timed(step, seconds):
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("forward", "train"))
    parser.add_argument("ndtrain")
    parser.add_argument("model")
    parser.add_argument("net")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--precision", choices=TYPES, default="f16")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    side = 299 if args.net == "inception_v3" else 224
    kind = TYPES[args.precision]
    module = net(args.net).cuda().to(memory_format=torch.channels_last)
    x = torch.randn(args.batch, 3, side, side, device="cuda").to(memory_format=torch.channels_last)

    if args.what == "forward":
        module = module.eval().to(kind)
        compiled = torch.compile(module, mode="reduce-overhead" if args.batch == 1 else "default")
        x = x.to(kind)

        def step():
            with torch.inference_mode():
                compiled(x)
    else:
        compiled = torch.compile(module.train())
        labels = torch.randint(0, 1000, (args.batch,), device="cuda")
        optimizer = torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)
        scaler = torch.amp.GradScaler("cuda", enabled=args.precision == "f16")

        def step():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", kind):
                loss = nn.functional.cross_entropy(compiled(x), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    def ours():
        verb = ["bench", args.what, "-m", args.model, "-b", args.batch, "--device", "cuda", "--seconds", args.seconds,
                "--compute" if args.what == "train" else "--precision", args.precision]
        return ndtrain(args.ndtrain, "ndtrain", *verb)["images_per_s"]

    a, b = alternate(args.rounds, ours, lambda: args.batch / timed(step, args.seconds))
    print(f"{args.net} {args.what} {args.precision} batch {args.batch} on {torch.cuda.get_device_name()}: ndtrain {spread(a)} "
          f"images/s, PyTorch {torch.__version__} with CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()} "
          f"{spread(b)} images/s, ratio {statistics.median(a) / statistics.median(b):.3f}", flush=True)


main()
