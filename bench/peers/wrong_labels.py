"""Labels that are wrong on purpose, found by `ndtrain labels refine`, beside cleanlab on the same held-out probabilities;
and classes for photos from five examples each, by `ndtrain labels suggest`, beside scikit-learn's logistic regression on
the features of the same layer, by ONNX Runtime.

usage: wrong_labels.py NDTRAIN MODEL.onnx FLOWERS IMAGENET [--seeds 3]
       FLOWERS: folders of classes; IMAGENET: photos with labels.csv (file,class index), of which six groups of classes are
       told apart; needs numpy, onnx, onnxruntime, PIL, cleanlab, scikit-learn. Prints JSON.
"""
import argparse
import csv
import json
import os
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from cleanlab.filter import find_label_issues
from sklearn.linear_model import LogisticRegression

from peer import ndtrain
from similarity_measures import crop

# First and last index of ImageNet's classes.
GROUPS = {"bird": [(7, 24), (80, 100), (127, 146)], "reptile": [(25, 68)], "dog": [(151, 268)],
          "insect": [(300, 326)], "mammal": [(269, 299), (330, 388)], "food": [(924, 969)]}


def read_csv(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def flowers(root):
    return {f"{c}/{f}": c for c in sorted(os.listdir(root)) for f in sorted(os.listdir(os.path.join(root, c)))}


def imagenet_groups(root):
    groups = {}
    for row in read_csv(os.path.join(root, "labels.csv")):
        for name, ranges in GROUPS.items():
            if any(low <= int(row["class"]) <= high for low, high in ranges):
                groups[row["file"]] = name
    return groups


class Site:
    """A label database of the photos below a directory."""

    def __init__(self, program, model, root, truth, tmp):
        self.program, self.model, self.root, self.tmp, self.truth = program, model, root, tmp, truth
        self.db = f"sqlite:{tmp}/labels.db"
        self.list = os.path.join(tmp, "list.txt")
        with open(self.list, "w") as f:
            f.writelines(os.path.join(root, p) + "\n" for p in truth)
        self.run("relabel", self.list, "--root", root, "-m", model, "--task", "model")

    def run(self, *args):
        cache = [] if args[:2] in (("labels", "import"), ("labels", "export")) else ["--cache", f"{self.tmp}/cache"]
        return ndtrain(self.program, *args, "--db", self.db, *cache)

    def say(self, task, labels):
        path = os.path.join(self.tmp, "said.csv")
        with open(path, "w", newline="") as f:
            csv.writer(f).writerows([("path", "label"), *labels.items()])
        self.run("labels", "import", path, "--task", task)


def refine(site, rate, seed):
    """Precision of the first listed, as many as there are wrong: ours, and cleanlab's two orders."""
    rng = np.random.default_rng(seed)
    paths, names = list(site.truth), sorted(set(site.truth.values()))
    wrong = set(rng.choice(paths, round(rate * len(paths)), replace=False))
    said = {p: names[(names.index(c) + rng.integers(1, len(names))) % len(names)] if p in wrong else c
            for p, c in site.truth.items()}
    task, scores = f"wrong-{rate}-{seed}", os.path.join(site.tmp, "scores.csv")
    site.say(task, said)
    listed = site.run("labels", "refine", site.list, "--root", site.root, "-m", site.model, "--task", task, "--dry-run",
                      "--scores", scores)
    rows = read_csv(scores)
    p = np.array([[float(r[n]) for n in names] for r in rows])
    given = np.array([names.index(r["label"]) for r in rows])
    precision = {"ndtrain": np.mean([i["path"] in wrong for i in listed["issues"][:len(wrong)]]),
                 "listed": len(listed["issues"]), "wrong": len(wrong)}
    for order in ("self_confidence", "normalized_margin"):
        issues = find_label_issues(given, p, return_indices_ranked_by=order)[:len(wrong)]
        precision["cleanlab " + order] = np.mean([rows[i]["path"] in wrong for i in issues])
    return precision


def features_of(model_path, root, paths):
    model = onnx.load(model_path)
    output = [n.output[0] for n in model.graph.node if n.op_type in ("Concat", "Add")][-1]
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(output))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    name = model.graph.input[0].name
    rows = (session.run([output], {name: crop(os.path.join(root, p))})[0][0] for p in paths)
    return {p: r.reshape(r.shape[0], -1).mean(axis=1) for p, r in zip(paths, rows)}


def suggest(site, features, name, seed, each=5):
    """Accuracies on all photos but the examples."""
    rng = np.random.default_rng(seed)
    classes = sorted(set(site.truth.values()))
    examples = [p for c in classes for p in rng.choice([p for p in site.truth if site.truth[p] == c], each, replace=False)]
    task = f"few-{name}-{seed}"
    site.say(task, {p: site.truth[p] for p in examples})
    said = site.run("labels", "suggest", site.list, "--root", site.root, "-m", site.model, "--task", task)
    labels = {r["path"]: r["label"] for r in site.run("labels", "export", "--task", task)}
    others = [p for p in site.truth if p not in set(examples)]
    peer = LogisticRegression(max_iter=2000).fit([features[p] for p in examples], [site.truth[p] for p in examples])
    predicted = peer.predict([features[p] for p in others])
    return {"ndtrain": np.mean([labels[p] == site.truth[p] for p in others]), "method": said["method"],
            "scikit-learn": np.mean([a == site.truth[p] for a, p in zip(predicted, others)]), "photos": len(others)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("ndtrain", "model", "flowers", "imagenet"):
        parser.add_argument(name)
    parser.add_argument("--seeds", type=int, default=3)
    a = parser.parse_args()
    result = {"refine": {}, "suggest": {}}
    for name, root, truth in (("flowers", a.flowers, flowers(a.flowers)), ("imagenet", a.imagenet, imagenet_groups(a.imagenet))):
        with tempfile.TemporaryDirectory() as tmp:
            site = Site(a.ndtrain, os.path.abspath(a.model), os.path.abspath(root), truth, tmp)
            features = features_of(a.model, root, list(truth))
            runs = [suggest(site, features, name, seed) for seed in range(a.seeds)]
            result["suggest"][name] = runs
            print(name, runs, file=sys.stderr, flush=True)
            if name != "flowers":
                continue
            for rate in (0.05, 0.1, 0.2):
                result["refine"][rate] = [refine(site, rate, seed) for seed in range(a.seeds)]
                print(rate, result["refine"][rate], file=sys.stderr, flush=True)
    print(json.dumps(result, indent=1, default=float))


main()
