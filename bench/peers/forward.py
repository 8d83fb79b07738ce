"""Forward throughput against ONNX Runtime: `ndtrain bench forward` and peers/ort_forward.py in turn.

usage: forward.py NDTRAIN ORT_FORWARD.py MODEL.onnx [--size 224] [--batch 16] [--threads 1,2] [--seconds 10] [--rounds 3]
       [--python PYTHON] [--device NAME] [--ours FILE]
PYTHON needs onnxruntime and numpy; FILE is what ndtrain runs instead (the same network in int8, say)
"""
import argparse
import statistics
import sys

from peer import alternate, ndtrain, peer, spread


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ndtrain")
    parser.add_argument("ort_forward")
    parser.add_argument("model")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--ours")
    args = parser.parse_args()
    for threads in args.threads.split(","):
        def ours():
            return ndtrain(args.ndtrain, "bench", "forward", "-m", args.ours or args.model, "-b", args.batch, "-j", threads,
                           "--seconds", args.seconds, "--device", args.device)["images_per_s"]

        def theirs():
            return peer(args.python, args.ort_forward, args.model, args.size, args.batch, threads, args.seconds,
                        pattern=r"([\d.]+) images/s")[0]

        a, b = alternate(args.rounds, ours, theirs)
        print(f"batch {args.batch} threads {threads}: ndtrain {spread(a)} images/s, onnxruntime {spread(b)} images/s, "
              f"ratio {statistics.median(a) / statistics.median(b):.3f}", flush=True)


main()
