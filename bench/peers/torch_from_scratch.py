"""A ResNet-18 trained from scratch on an ImageFolder at 96 pixels, as PyTorch's users write it: RandomResizedCrop and
RandomHorizontalFlip, or mixup and CutMix too, SGD with a cosine; the peer of from_scratch.py.

usage: torch_from_scratch.py START.onnx PHOTOS [--epochs 30] [--batch 64] [--lr 0.05] [--seed 0] [--threads 2] [--mix]
       START.onnx of `ndtrain model build resnet18 --classes 5 --img-size 96`, whose weights it begins with; PHOTOS has
       train and val. --mix: MixUp(0.2) or CutMix(1) of each batch, as torchvision's references have it
"""
import argparse
import time

import onnx
import torch
import torchvision as tv
from onnx import numpy_helper
from torchvision.transforms import v2

SIDE, RESIZE = 96, 109
NORMAL = v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
TO_FLOAT = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), NORMAL]


def rows(photos, train, args):
    picture = ([v2.RandomResizedCrop(SIDE), v2.RandomHorizontalFlip()] if train
               else [v2.Resize(RESIZE), v2.CenterCrop(SIDE)])
    data = tv.datasets.ImageFolder(f"{photos}/{'train' if train else 'val'}", v2.Compose(picture + TO_FLOAT))
    return torch.utils.data.DataLoader(data, args.batch, shuffle=train)


def top1(net, loader):
    net.eval()
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start")
    parser.add_argument("photos")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--mix", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    train, val = rows(args.photos, True, args), rows(args.photos, False, args)
    classes = len(train.dataset.classes)
    net = tv.models.resnet18(num_classes=classes).to(memory_format=torch.channels_last)
    weights = {t.name: torch.tensor(numpy_helper.to_array(t)) for t in onnx.load(args.start).graph.initializer}
    missing, _ = net.load_state_dict(weights, strict=False)
    if any(not name.endswith("num_batches_tracked") for name in missing):
        raise SystemExit(f"{args.start} lacks {missing}")
    mix = v2.RandomChoice([v2.MixUp(alpha=0.2, num_classes=classes), v2.CutMix(alpha=1.0, num_classes=classes)])
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train))
    loss_of = torch.nn.CrossEntropyLoss()
    best, start = 0.0, time.time()
    for epoch in range(args.epochs):
        net.train()
        for x, y in train:
            if args.mix:
                x, y = mix(x, y)
            optimizer.zero_grad()
            loss_of(net(x.contiguous(memory_format=torch.channels_last)), y).backward()
            optimizer.step()
            schedule.step()
        last = top1(net, val)
        best = max(best, last)
        print(f"epoch {epoch + 1} val top-1 {last:.4f}", flush=True)
    print(f"best top-1 {best:.4f} total {time.time() - start:.1f} s, torch {torch.__version__}, torchvision {tv.__version__}")


main()
