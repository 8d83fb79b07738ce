"""Training steps against PyTorch's: `ndtrain bench train` and peers/torch_step.py in turn.

usage: train_steps.py NDTRAIN NETWORK ... [--batch 16] [--threads 1,2] [--compute f32,bf16] [--seconds 8] [--rounds 3]
       [--python PYTHON] [--device auto] [--models DIR] [--json FILE]
NETWORK is a name that `ndtrain model build` and torchvision have; PYTHON needs torch and torchvision. PyTorch is asked in
its own layout and channels-last, and the faster counts; of peaks of memory the smaller. Prints medians and ratios, and the
geometric mean over the networks.
"""
import argparse
import math
import os
import statistics
import subprocess
import sys
import json
import tempfile

from peer import ndtrain, peer, spread

HERE = os.path.dirname(os.path.abspath(__file__))


def ours(args, model, threads, compute):
    """(images/s, MiB of peak memory) of one run, in a process of its own."""
    command = [args.ndtrain, "bench", "train", "-m", model, "-b", str(args.batch), "-j", str(threads), "--compute", compute,
               "--seconds", str(args.seconds), "--device", args.device, "--json", "-q"]
    with tempfile.TemporaryFile() as out:
        pid = os.posix_spawn(args.ndtrain, command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1)])
        _, status, used = os.wait4(pid, 0)
        out.seek(0)
        text = out.read()
    if status:
        raise SystemExit(f"{' '.join(command)}: status {status}")
    result = json.loads(text)
    if result["compute"] != compute:
        raise SystemExit(f"{' '.join(command)}: computed in {result['compute']}")
    return result["images_per_s"], used.ru_maxrss / 1024


def theirs(args, network, threads, compute, last):
    extra = ["--channels-last"] if last else []
    pattern = r"([\d.]+) images/s"
    rate, text = peer(args.python, f"{HERE}/torch_step.py", network, args.batch, threads, args.seconds, "--compute", compute,
                      *extra, pattern=pattern)
    return rate, float(text.split("peak ")[1].split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ndtrain")
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--compute", default="f32,bf16")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--models", default=tempfile.gettempdir())
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = []
    for compute in args.compute.split(","):
        for threads in args.threads.split(","):
            speeds, peaks = [], []
            for network in args.networks:
                model = f"{args.models}/{network}.onnx"
                if not os.path.exists(model):
                    subprocess.run([args.ndtrain, "model", "build", network, "-o", model, "-q"], check=True, stdout=subprocess.DEVNULL)
                sides = {"ours": [], "plain": [], "last": []}
                for _ in range(args.rounds):
                    sides["ours"].append(ours(args, model, threads, compute))
                    sides["plain"].append(theirs(args, network, threads, compute, False))
                    sides["last"].append(theirs(args, network, threads, compute, True))
                rate = {k: [r for r, _ in v] for k, v in sides.items()}
                peak = {k: statistics.median(p for _, p in v) for k, v in sides.items()}
                best = max(("plain", "last"), key=lambda k: statistics.median(rate[k]))
                speed = statistics.median(rate["ours"]) / statistics.median(rate[best])
                memory = peak["ours"] / min(peak["plain"], peak["last"])
                speeds.append(speed)
                peaks.append(memory)
                rows.append({"network": network, "compute": compute, "threads": int(threads), "batch": args.batch,
                             "ours": rate["ours"], "torch": rate[best], "torch_layout": best, "ratio": speed,
                             "peak_mib": peak["ours"], "torch_peak_mib": min(peak["plain"], peak["last"])})
                print(f"{network} {compute} batch {args.batch} threads {threads}: ndtrain {spread(rate['ours'])} images/s, "
                      f"torch ({best}) {spread(rate[best])} images/s, ratio {speed:.3f}; peak {peak['ours']:.0f} MiB, "
                      f"torch {min(peak['plain'], peak['last']):.0f} MiB, ratio {memory:.3f}", flush=True)
            mean = math.exp(statistics.fmean(map(math.log, speeds)))
            print(f"{compute} threads {threads}: geometric mean of ratios {mean:.3f}, largest peak {max(peaks):.3f} of "
                  "PyTorch's", flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


main()
