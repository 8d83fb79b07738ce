"""Forward throughput against other engines: `ndtrain bench forward` and each peer's script in turn.

usage: forward.py NDTRAIN PEER.py[,PEER.py…] MODEL.onnx [--size 224] [--batch 16] [--threads 1,2] [--seconds 10] [--rounds 3]
       [--python PYTHON] [--device NAME] [--ours FILE] [--precision bf16]
PEER.py is ort_forward.py or openvino_forward.py, for which PYTHON needs onnxruntime or openvino, and numpy; FILE is what ndtrain
runs instead (the same network in int8, say); with --precision all compute in it (of the peers openvino_forward.py can)
"""
import argparse
import os
import statistics
import sys

from peer import alternate, ndtrain, peer, spread


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ndtrain")
    parser.add_argument("peers", type=lambda names: names.split(","))
    parser.add_argument("model")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--ours")
    parser.add_argument("--precision")
    args = parser.parse_args()
    precision = [args.precision] if args.precision else []
    for threads in args.threads.split(","):
        def ours():
            return ndtrain(args.ndtrain, "bench", "forward", "-m", args.ours or args.model, "-b", args.batch, "-j", threads,
                           "--seconds", args.seconds, "--device", args.device,
                           *(["--precision", *precision] if precision else []))["images_per_s"]

        def of(script):
            return lambda: peer(args.python, script, args.model, args.size, args.batch, threads, args.seconds,
                                *precision, pattern=r"([\d.]+) images/s")[0]

        mine, *others = alternate(args.rounds, ours, *map(of, args.peers))
        for script, theirs in zip(args.peers, others):
            print(f"batch {args.batch} threads {threads}: ndtrain {spread(mine)} images/s, {os.path.basename(script)} "
                  f"{spread(theirs)} images/s, ratio {statistics.median(mine) / statistics.median(theirs):.3f}", flush=True)


main()
