"""How far off ndtrain, ONNX Runtime and PyTorch in f32 each are from PyTorch in double, on files that export_timm.py wrote.

usage: timm_in_double.py NDTRAIN NAME.OPSET.onnx ... [--seed 0] [--inputs 3]       (pip: torch timm onnx onnxruntime numpy)

For models whose logits compare_zoo.py finds further apart than its bound: where ONNX Runtime itself is beyond the bound, the
two say nothing of each other. Differences are the largest of the logits, as a share of their standard deviation over 18 inputs.
"""
import argparse
import os
import tempfile

import numpy as np
import onnxruntime as ort
import torch

from compare_zoo import largest_difference_to, write
from export_timm import build


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ndtrain")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=3)
    args = parser.parse_args()
    for path in args.models:
        name = os.path.basename(path).split(".")[0]
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        source, sink = session.get_inputs()[0], session.get_outputs()[0].name
        x = np.random.default_rng(0).standard_normal((18, *source.shape[1:]), dtype=np.float32)
        theirs = np.concatenate([session.run([sink], {source.name: row[None]})[0] for row in x])
        deviation = float(np.sqrt((theirs.std(axis=0) ** 2).mean()))
        model, x = build(name, args.seed), x[:args.inputs]
        with torch.no_grad():
            single = model(torch.from_numpy(x)).numpy()
            double = model.double()(torch.from_numpy(x).double()).numpy()

        def ours(device):
            with tempfile.TemporaryDirectory() as data:
                write(f"{data}/input_0.pb", source.name, x)
                write(f"{data}/output_0.pb", sink, double.astype(np.float32))
                return largest_difference_to(args.ndtrain, path, data, "--device", device)

        off = {"ONNX Runtime": np.abs(theirs[:args.inputs] - double).max(), "PyTorch": np.abs(single - double).max(),
               "ndtrain cpu": ours("cpu"), "ndtrain onednn": ours("onednn")}
        print(f"{name}: deviation {deviation:.3g} of at most {np.abs(double).max():.3g}; " +
              ", ".join(f"{who} {value / deviation:.2e}" for who, value in off.items()), flush=True)


main()
