"""A run's exported model.onnx in ONNX Runtime against `ndtrain predict`, photo by photo, on the inputs as we preprocess them.

usage: exported_top1.py NDTRAIN RUN PHOTOS [--batch 32] [--device cpu]      (pip: onnxruntime onnx numpy)

`ndtrain predict --save-inputs` writes one tensor per photo, named after it. Prints how many photos have the same first class;
exit 1 unless all have.
"""
import argparse
import csv
import glob
import io
import json
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper


def load(path):
    with open(path, "rb") as f:
        tensor = onnx.TensorProto.FromString(f.read())
    return tensor.name, numpy_helper.to_array(tensor)


def our_labels(args, inputs):
    command = [args.ndtrain, "predict", args.run, args.photos, "-k", "1", "--format", "csv", "-q", "--save-inputs", inputs,
               "--device", args.device, "--cache", f"{inputs}/cache"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return {row["file"]: row["class"] for row in csv.DictReader(io.StringIO(done.stdout))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ndtrain")
    parser.add_argument("run")
    parser.add_argument("photos")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    session = ort.InferenceSession(f"{args.run}/model.onnx", providers=["CPUExecutionProvider"])
    classes = session.get_modelmeta().custom_metadata_map.get("ndtrain.classes")
    same = total = 0
    with tempfile.TemporaryDirectory() as inputs:
        labels = our_labels(args, inputs)
        files = sorted(glob.glob(f"{inputs}/input_*.pb"))
        for start in range(0, len(files), args.batch):
            names, rows = zip(*map(load, files[start:start + args.batch]))
            scores = session.run(None, {session.get_inputs()[0].name: np.stack(rows)})[0]
            for name, best in zip(names, scores.reshape(len(names), -1).argmax(1)):
                total += 1
                same += labels[name] == (json.loads(classes)[best] if classes else str(best))
    print(f"{same} of {total} photos have the same class in ONNX Runtime {ort.__version__} and in ndtrain")
    sys.exit(total != len(labels) or same != total or total == 0)


main()
