"""A ResNet-18 from scratch on the flowers at 96 pixels, with random crops and flips: `ndtrain train` and PyTorch with
torchvision in turn, from the same weights, for each seed. Prints the best top-1 of each, and writes OUT/from_scratch.json.

usage: from_scratch.py NDTRAIN PHOTOS OUT [--epochs 30] [--seeds 3] [--first 0] [--threads 2] [--mix] [--beside]
                       [--python PYTHON]
       PYTHON needs torch, torchvision, onnx and PIL; OUT is a directory for runs and from_scratch.json
       --first: the first of the seeds
       --mix: mixup=0.2 and cutmix=1, too
       --beside: the two run at the same time, so that only their top-1 can be compared
"""
import argparse
import json
import os
import re
import statistics
import sys
import time

from concurrent.futures import ThreadPoolExecutor

from peer import alternate, ndtrain, peer, spread

TORCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_from_scratch.py")
BATCH, LR = 64, 0.05


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ndtrain")
    parser.add_argument("photos")
    parser.add_argument("out")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--mix", action="store_true")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    seconds = {"ndtrain": [], "pytorch": []}
    seeds = range(args.first, args.first + args.seeds)
    ours_seeds, their_seeds = iter(seeds), iter(seeds)

    def start_of(seed):
        return os.path.join(args.out, f"start{seed}.onnx")

    for seed in seeds:
        ndtrain(args.ndtrain, "model", "build", "resnet18", "-o", start_of(seed), "--classes", 5, "--img-size", 96, "--seed", seed)

    def ours():
        seed = next(ours_seeds)
        changes = "crop,flip" + (",mixup=0.2,cutmix=1" if args.mix else "")
        begun = time.perf_counter()
        result = ndtrain(args.ndtrain, "train", args.photos, "-m", start_of(seed), "-o", os.path.join(args.out, f"run{seed}"),
                         "--freeze", "none", "--augment", changes, "-e", args.epochs, "-b", BATCH, "--opt", "sgd", "--lr", LR,
                         "--momentum", 0.9, "--weight-decay", 5e-4, "--sched", "cosine", "-j", args.threads, "--seed", seed,
                         ok=(0, 3))
        seconds["ndtrain"].append(time.perf_counter() - begun)
        print(f"seed {seed}: ndtrain best top-1 {result['top1']:.4f}", flush=True)
        return result["top1"]

    def theirs():
        seed = next(their_seeds)
        best, text = peer(args.python, TORCH, start_of(seed), args.photos, "--epochs", args.epochs, "--batch", BATCH, "--lr", LR,
                          "--seed", seed, "--threads", args.threads, *(["--mix"] if args.mix else []),
                          pattern=r"best top-1 ([\d.]+)")
        seconds["pytorch"].append(float(re.search(r"total ([\d.]+) s", text)[1]))
        print(f"seed {seed}: {text.splitlines()[-1]}", flush=True)
        return best

    if args.beside:
        with ThreadPoolExecutor(2) as both:
            a, b = both.map(lambda side: [side() for _ in range(args.seeds)], (ours, theirs))
    else:
        a, b = alternate(args.seeds, ours, theirs)
    result = {"epochs": args.epochs, "seeds": args.seeds, "mix": args.mix, "ndtrain_top1": a, "pytorch_top1": b,
              "ndtrain_mean": statistics.mean(a), "pytorch_mean": statistics.mean(b), "seconds": seconds}
    with open(os.path.join(args.out, "from_scratch.json"), "w", encoding="utf-8") as f:
        json.dump(result, f)
    times = f"; seconds ndtrain {spread(seconds['ndtrain'])}, pytorch {spread(seconds['pytorch'])}"
    print(f"{args.epochs} epochs, {args.seeds} seeds: best top-1 ndtrain {spread(a)}, pytorch {spread(b)}"
          + ("" if args.beside else times))


main()
