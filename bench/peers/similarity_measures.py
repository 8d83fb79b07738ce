"""Which measure of likeness finds photos of the same class: the share of the ten nearest of each photo that are of its
class, by the cosine of average-pooled features as they are, centred, standardised, and whitened (PCA).

usage: similarity_measures.py MODEL.onnx PHOTOS [--output NAME] [--most 160]
       PHOTOS: folders of classes; NAME: a value of the model, without it the last Concat or Add of the graph;
       needs numpy, onnx, onnxruntime, PIL
"""
import argparse
import glob
import os

import numpy as np
import onnx
import onnxruntime
from PIL import Image

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def crop(path, side=224, resize=256):
    image = Image.open(path).convert("RGB")
    scale = resize / min(image.size)
    image = image.resize([round(scale * n) for n in image.size], Image.BILINEAR)
    left, top = [(n - side) // 2 for n in image.size]
    pixels = np.asarray(image.crop((left, top, left + side, top + side))) / 255
    return ((pixels - MEAN) / STD).transpose(2, 0, 1)[None].astype(np.float32)


def of_same_class(features, classes, k=10):
    features = features / np.linalg.norm(features, axis=1, keepdims=True)
    likeness = features @ features.T
    np.fill_diagonal(likeness, -9)
    nearest = np.argsort(-likeness, axis=1)[:, :k]
    return (classes[nearest] == classes[:, None]).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("photos")
    parser.add_argument("--output")
    parser.add_argument("--most", type=int, default=160)
    args = parser.parse_args()
    model = onnx.load(args.model)
    output = args.output or [n.output[0] for n in model.graph.node if n.op_type in ("Concat", "Add")][-1]
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(output))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    features, classes = [], []
    for number, name in enumerate(sorted(os.listdir(args.photos))):
        for path in sorted(glob.glob(os.path.join(args.photos, name, "*")))[:args.most]:
            row = session.run([output], {model.graph.input[0].name: crop(path)})[0][0]
            features.append(row.reshape(row.shape[0], -1).mean(axis=1))
            classes.append(number)
    features, classes = np.array(features), np.array(classes)
    centred = features - features.mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov(centred.T))
    measures = {"as they are": features, "centred": centred, "standardised": centred / (features.std(axis=0) + 1e-6)}
    for least in (1e-6, 1e-3, 1e-2, 1e-1):
        measures[f"whitened, + {least:g} of the largest variance"] = \
            centred @ directions / np.sqrt(variances + least * variances.max())
    print(f"{len(classes)} photos of {classes.max() + 1} classes, {features.shape[1]} features: {output}")
    for name, values in measures.items():
        print(f"  {of_same_class(values, classes):.3f}  {name}")


if __name__ == "__main__":
    main()
