"""Runs a model that ndtrain has quantised (or any) in ONNX Runtime and in ndtrain, on the same inputs, and compares the
best classes: quantized.py NDTRAIN MODEL PHOTOS [--count N] [--against F32_MODEL]"""

import argparse
import json
import os
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("ndtrain")
    p.add_argument("model")
    p.add_argument("photos")
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--against", help="the f32 model it was made from")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        some = os.path.join(tmp, "photos")
        os.mkdir(some)
        names = sorted(n for n in os.listdir(a.photos) if n.lower().endswith((".jpg", ".jpeg")))
        for n in names[: a.count]:
            os.symlink(os.path.join(os.path.abspath(a.photos), n), os.path.join(some, n))
        inputs = os.path.join(tmp, "inputs")
        out = subprocess.run(
            [a.ndtrain, "predict", a.model, some, "-k", "1", "--format", "json", "--save-inputs", inputs,
             "--cache", os.path.join(tmp, "cache")], check=True, capture_output=True, text=True).stdout
        ours = {r["file"]: int(r["top"][0]["class"]) for r in json.loads(out)}
        tensors = {}
        for name in os.listdir(inputs):
            t = onnx.TensorProto.FromString(open(os.path.join(inputs, name), "rb").read())
            tensors[t.name] = onnx.numpy_helper.to_array(t)
    sessions = {"ONNX Runtime": onnxruntime.InferenceSession(a.model, providers=["CPUExecutionProvider"])}
    if a.against:
        sessions["ONNX Runtime, f32"] = onnxruntime.InferenceSession(a.against, providers=["CPUExecutionProvider"])
    for who, s in sessions.items():
        same = sum(int(np.argmax(s.run(None, {s.get_inputs()[0].name: x[None]})[0])) == ours[n]
                   for n, x in tensors.items())
        print(f"{who}: the same best class as ndtrain for {same} of {len(tensors)} photos")


main()
