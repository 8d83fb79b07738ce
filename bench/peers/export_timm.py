"""Architectures of timm, drawn by a seed, with random weights, as PyTorch's exporter writes them.

usage: export_timm.py DIRECTORY [--count 200] [--seed 0] [--opset 18,23] [--most-parameters 60] (pip: torch timm onnx onnxscript)

Writes DIRECTORY/NAME.OPSET.onnx, each with a batch of any size, and names what PyTorch itself cannot export. Weights are drawn
from the seed and the name. --most-parameters, in millions, leaves larger ones out before drawing.
compare_zoo.py DIRECTORY/*.onnx then holds ours against ONNX Runtime.
"""
import argparse
import os
import random
import sys
import warnings
import zlib

import timm
import torch


def build(name, seed):
    torch.manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    return timm.create_model(name, pretrained=False, exportable=True).eval()


def export(model, path, opset):
    size = model.pretrained_cfg.get("test_input_size") or model.pretrained_cfg["input_size"]
    x = torch.randn(2, *size)
    with torch.no_grad():
        torch.onnx.export(model, (x,), path, dynamo=True, opset_version=opset, external_data=False, verbose=False,
                          input_names=["x"], dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=1024)},))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--opset", default="18,23")
    parser.add_argument("--most-parameters", type=float, default=60)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.makedirs(args.directory, exist_ok=True)
    names = timm.list_models()
    random.Random(args.seed).shuffle(names)
    done, lost = 0, []
    for name in names:
        if done == args.count:
            break
        with torch.device("meta"):
            millions = sum(p.numel() for p in timm.create_model(name).parameters()) / 1e6
        if millions > args.most_parameters:
            continue
        done += 1
        opset = args.opset.split(",")[done % len(args.opset.split(","))]
        path = f"{args.directory}/{name}.{opset}.onnx"
        if os.path.exists(path):
            continue
        try:
            export(build(name, args.seed), path, int(opset))
            print(f"{name}: opset {opset}, {millions:.1f} M", flush=True)
        except Exception as e:  # pylint: disable=broad-except
            lost.append(name)
            print(f"{name}: PyTorch cannot export it: {type(e).__name__} {str(e).splitlines()[0][:100]}", flush=True)
    print(f"{done} drawn, {len(lost)} that PyTorch cannot export: {', '.join(lost) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
