"""Fine-tuning SqueezeNet's head on the flowers, from JPEG files with an empty cache: `ndtrain train` and
peers/torch_finetune.py in turn.

usage: finetune.py NDTRAIN TORCH_FINETUNE.py SHARED_DIR [--threads 2] [--rounds 3] [--python PYTHON] [--head keep]
       PYTHON needs torch, torchvision, onnx and PIL; SHARED_DIR holds models/squeezenet1_1.onnx and data/flowers
"""
import argparse
import statistics
import sys
import tempfile
import time

from peer import alternate, ndtrain, peer, spread

# Spares glibc's page faults, as the peer asks for.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ndtrain")
    parser.add_argument("torch_finetune")
    parser.add_argument("shared")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--head", default="keep")
    args = parser.parse_args()
    top1, seeds = [], iter(range(args.rounds))

    def ours():
        with tempfile.TemporaryDirectory() as scratch:
            start = time.perf_counter()
            result = ndtrain(args.ndtrain, "train", f"{args.shared}/data/flowers", "-m",
                             f"{args.shared}/models/squeezenet1_1.onnx", "-o", f"{scratch}/run", "--cache", f"{scratch}/cache",
                             "--freeze", "auto", "--head", args.head, "-e", 15, "-b", 64, "--opt", "adam", "--lr", "1e-3",
                             "-j", args.threads, "--seed", next(seeds), ok=(0, 3))
            top1.append(result["top1"])
            return time.perf_counter() - start

    def theirs():
        seconds, text = peer(args.python, args.torch_finetune, args.shared, args.threads, pattern=r"total ([\d.]+) s", env=MALLOC)
        print(text, flush=True)
        return seconds

    a, b = alternate(args.rounds, ours, theirs)
    print(f"threads {args.threads}: ndtrain {spread(a)} s, pytorch {spread(b)} s, "
          f"{statistics.median(b) / statistics.median(a):.2f} times as fast; top-1 {' '.join(f'{t:.4f}' for t in top1)}")


main()
