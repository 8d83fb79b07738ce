"""Our logits against ONNX Runtime's, on the files that peers/export_zoo.py writes or any other image classifiers.

usage: compare_zoo.py NDTRAIN MODEL.onnx ... [--inputs 16] [--device cpu | --interpreter]   (pip: onnxruntime onnx numpy)

For every model, 16 random inputs go one by one and then in batches of three. Prints the largest difference as a share of
the logits' standard deviation over inputs (its root mean square over the logits), or why a model is refused, and at the end how
many agree; where the logits are the same for every input, as those of a head of zeros, as a share of the largest. Exit 1 when
one is above 1e-3 or refused.
With --interpreter our double reference stands in for the backend: so far is ONNX Runtime itself off (slow; few inputs).
"""
import argparse
import os
import sys
import tempfile

import numpy as np
import onnxruntime as ort
from onnx import numpy_helper

from peer import Failed, ndtrain

LIMIT = 1e-3


def write(path, name, array):
    with open(path, "wb") as f:
        f.write(numpy_helper.from_array(array, name).SerializeToString())


def largest_difference_to(program, model, data, *how):
    """Of what `data` has recorded."""
    return ndtrain(program, "model", "verify", model, "--data", data, "--rtol", 0, "--atol", 0, *how, ok=(0, 1))["largest_error"]


def largest_difference(args, model, session, x, batch):
    """Over all rows of x, in batches of at least `batch` rows."""
    worst = 0.0
    source, sink = session.get_inputs()[0].name, session.get_outputs()[0].name
    for start in range(0, len(x) - len(x) % batch, batch):
        rows = x[start:start + batch]
        with tempfile.TemporaryDirectory() as data:
            write(f"{data}/input_0.pb", source, rows)
            write(f"{data}/output_0.pb", sink, session.run([sink], {source: rows})[0])
            how = ["--interpreter"] if args.interpreter else ["--device", args.device]
            worst = max(worst, largest_difference_to(args.ndtrain, model, data, *how))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ndtrain")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--inputs", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--interpreter", action="store_true")
    args = parser.parse_args()
    above, refused = [], []
    for model in args.models:
        name = os.path.basename(model)
        session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        shape = session.get_inputs()[0].shape
        n = args.inputs + -args.inputs % 3
        x = np.random.default_rng(0).standard_normal((max(n, 18), *shape[1:]), dtype=np.float32)
        logits = np.concatenate([session.run(None, {session.get_inputs()[0].name: row[None]})[0] for row in x])
        deviation = float(np.sqrt((logits.std(axis=0) ** 2).mean()))
        scale = deviation or float(np.abs(logits).max()) or 1.0
        try:
            share = {b: largest_difference(args, model, session, x[:args.inputs if b == 1 else n], b) / scale
                     for b in ((1,) if args.interpreter else (1, 3))}
        except Failed as e:
            refused.append(name)
            print(f"{name:28} REFUSED {' '.join(str(e).splitlines()[1:])}", flush=True)
            continue
        passed = all(s <= LIMIT for s in share.values())
        if not passed:
            above.append(name)
        shares = "  ".join(f"batch {b} {s:8.2e}" for b, s in share.items())
        print(f"{name:28} deviation {deviation:9.4g}  {shares}  {'ok' if passed else 'ABOVE ' + str(LIMIT)}", flush=True)
    print(f"{len(args.models)} models: {len(args.models) - len(above) - len(refused)} agree, {len(above)} are above {LIMIT}, "
          f"{len(refused)} are refused")
    sys.exit(bool(above or refused))


if __name__ == "__main__":
    main()
