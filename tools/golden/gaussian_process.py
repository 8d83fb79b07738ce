"""Writes tests/numeric/golden_gaussian_process.inc: what scikit-learn's Gaussian process makes of
fixed points, under given hyper-parameters and under those it finds. Run by hand:
python3 tools/golden/gaussian_process.py > tests/numeric/golden_gaussian_process.inc
"""
import math
import warnings

import numpy
import sklearn
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

CASES = [
    ("one coordinate", [[0.05], [0.2], [0.35], [0.55], [0.8], [0.95]],
     lambda x: math.sin(6 * x[0]) + 2, [0.3], 1.7, 1e-4, [[0.0], [0.2], [0.5], [2.0]]),
    ("two lengths", [[i / 4, (3 * i % 5) / 5] for i in range(5)] + [[0.1, 0.9], [0.9, 0.15]],
     lambda x: (x[0] - 0.3) ** 2 + 0.2 * x[1], [0.5, 1.5], 0.8, 1e-2,
     [[0.3, 0.3], [1.0, 0.0], [0.0, 1.0]]),
    ("noise", [[i / 11] for i in range(12)], lambda x: x[0] + (0.2 if int(11 * x[0]) % 2 else 0),
     [0.4], 1.2, 0.3, [[0.25], [0.5]]),
]
BOUNDS = dict(variance=(1e-3, 1e3), length=(1e-2, 1e2), noise=(1e-8, 1))


def braces(values):
    return "{" + ", ".join(f"{v:.15g}" for v in values) + "}"


def points(rows):
    return "{" + ", ".join(braces(row) for row in rows) + "}"


def main():
    warnings.simplefilter("ignore")  # a hyper-parameter may end on its bound
    print("// Made by tools/golden/gaussian_process.py with scikit-learn", sklearn.__version__)
    for name, x, f, lengths, variance, noise, at in CASES:
        y = [f(p) for p in x]
        known = GaussianProcessRegressor(
            ConstantKernel(variance) * Matern(lengths, nu=2.5), alpha=noise, optimizer=None,
            normalize_y=True).fit(x, y)
        mean, deviation = known.predict(numpy.array(at), return_std=True)
        found = GaussianProcessRegressor(
            ConstantKernel(1, BOUNDS["variance"]) *
            Matern([1] * len(lengths), BOUNDS["length"], nu=2.5) +
            WhiteKernel(1e-4, BOUNDS["noise"]),
            alpha=0, normalize_y=True, n_restarts_optimizer=20, random_state=0).fit(x, y)
        print(f'{{"{name}", {points(x)}, {braces(y)},\n {braces(lengths)}, {variance}, {noise:.15g},')
        print(f" {points(at)}, {braces(mean)}, {braces(deviation)},")
        print(f" {known.log_marginal_likelihood_value_:.15g}, "
              f"{found.log_marginal_likelihood_value_:.15g}}},")


main()
