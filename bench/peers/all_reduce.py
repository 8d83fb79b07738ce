"""Sums in the order of the tree against MPI_Allreduce of a C program, by ranks on this machine: the two in turn.

usage: all_reduce.py NDTRAIN MPI_ALLREDUCE [--ranks 2] [--shards 2] [--megabytes 1,4,16,64,100] [--turns 9] [--rounds 10]
       MPI_ALLREDUCE: mpicc -O2 -o MPI_ALLREDUCE bench/peers/mpi_allreduce.c
       --mpirun WORDS: how ranks are started, for both alike (mpirun); "chrt -f 10 mpirun --oversubscribe", say

A turn is a run of both, in which a time is the median of its rounds; a ratio is that of the two of a turn. Prints JSON:
of each size medians and ranges of the turns' times in ms, and of their ratios, above 1 where ours is faster.
"""
import argparse
import json
import statistics
import subprocess

import peer


def said(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ndtrain")
    parser.add_argument("mpi_allreduce")
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--shards", default="2")
    parser.add_argument("--megabytes", default="1,4,16,64,100")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--rounds", default="10")
    parser.add_argument("--mpirun", default="mpirun")
    args = parser.parse_args()
    start = [*args.mpirun.split(), "-n", args.ranks]
    sizes = args.megabytes.split(",")

    def ours():
        text = said([*start, args.ndtrain, "bench", "collectives", "--shards", args.shards, "--megabytes", args.megabytes,
                     "--rounds", args.rounds, "--ordered-only", "--json"])
        return {str(s["megabytes"]): s["ordered"]["median_ms"] for s in json.loads(text)["sizes"]}

    def theirs():
        lines = said([*start, args.mpi_allreduce, args.rounds, *sizes]).splitlines()
        return {size: float(ms) for size, ms in (line.split() for line in lines)}

    a, b = peer.alternate(args.turns, ours, theirs)
    result = {"ranks": int(args.ranks), "shards": int(args.shards), "turns": args.turns, "rounds": int(args.rounds), "sizes": []}
    for size in sizes:
        ratios = [y[size] / x[size] for x, y in zip(a, b)]
        result["sizes"].append({"megabytes": int(size), "ordered_ms": peer.spread([x[size] for x in a]),
                                "mpi_allreduce_ms": peer.spread([y[size] for y in b]), "ratio": statistics.median(ratios),
                                "ratios": peer.spread(ratios)})
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
