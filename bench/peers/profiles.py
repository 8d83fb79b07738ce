"""ICC profiles of RGB spaces, written from their primaries (ICC.1, version 2: matrix and curves)."""
import struct

import numpy as np

# Chromaticities of red, green, blue (white is D65), and the curve: a gamma, or None for sRGB's.
DISPLAY_P3 = ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060)), None
ADOBE_RGB = ((0.64, 0.33), (0.21, 0.71), (0.15, 0.06)), 2.19921875
SRGB = ((0.64, 0.33), (0.30, 0.60), (0.15, 0.06)), None


def xyz(x, y):
    return np.array([x / y, 1, (1 - x - y) / y])


def colorants(primaries):
    """Columns adapted to D50 by Bradford's matrix."""
    white, d50 = xyz(0.3127, 0.3290), np.array([0.9642, 1, 0.8249])
    m = np.stack([xyz(*p) for p in primaries], axis=1)
    m = m * np.linalg.solve(m, white)
    bradford = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
    scale = np.diag(bradford @ d50 / (bradford @ white))
    return np.linalg.inv(bradford) @ scale @ bradford @ m


def s15(values):
    return b"".join(struct.pack(">i", round(v * 65536)) for v in values)


def rgb_profile(primaries, gamma, points=1024):
    if gamma is None:
        x = np.linspace(0, 1, points)
        y = np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
        curve = b"curv" + bytes(4) + struct.pack(f">I{points}H", points, *np.round(y * 65535).astype(int))
    else:
        curve = b"curv" + bytes(4) + struct.pack(">IHxx", 1, round(gamma * 256))
    m = colorants(primaries)
    text = b"an RGB space"
    tags = [(b"desc", b"desc" + bytes(4) + struct.pack(">I", len(text) + 1) + text + bytes(1 + 78 + (-(len(text) + 91)) % 4)),
            (b"cprt", b"text" + bytes(4) + b"none\0\0\0\0"), (b"wtpt", b"XYZ " + bytes(4) + s15([0.9642, 1, 0.8249]))]
    tags += [(n, b"XYZ " + bytes(4) + s15(m[:, i])) for i, n in enumerate((b"rXYZ", b"gXYZ", b"bXYZ"))]
    tags += [(n, curve) for n in (b"rTRC", b"gTRC", b"bTRC")]
    at, table, data = 128 + 4 + 12 * len(tags), b"", b""
    for name, value in tags:
        table += name + struct.pack(">II", at + len(data), len(value))
        data += value
    size = at + len(data)
    header = (struct.pack(">I", size) + bytes(4) + struct.pack(">I", 0x02400000) + b"mntrRGB XYZ " + bytes(12) + b"acsp"
              + bytes(28) + s15([0.9642, 1, 0.8249]))
    return header.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + data
