#!/usr/bin/env python3
"""What PIL makes of small files, of resizes and of real photos, for the tests beside it.

    golden.py photos > golden_photos.inc
    golden.py resizes > golden_resizes.inc
    golden.py crops ../shared/data > golden_crops.inc
    golden.py changes > golden_changes.inc
    golden.py operations > golden_operations.inc
    golden.py mixes > golden_mixes.inc

Needs numpy and Pillow before 13, whose resize takes the rows of tall images first; mixes needs torch and torchvision.
"""
import hashlib
import io
import os
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageEnhance, ImageOps


def picture(w, h, channels, seed):
    y, x, c = np.mgrid[0:h, 0:w, 0:channels]
    return ((x * (7 + seed) + y * (11 - seed) + c * 50 + x * y) % 256).astype(np.uint8)


def save(array, mode, **options):
    image = Image.fromarray(array.squeeze(), mode)
    out = io.BytesIO()
    image.save(out, **options)
    return out.getvalue()


def chunk(tag, data):
    return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))


def png(w, h, depth, colour, rows, extra=b"", interlace=0):
    header = struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra
            + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r for r in rows), 9)) + chunk(b"IEND", b""))


def files():
    rgb, grey, four = picture(19, 13, 3, 1), picture(19, 13, 1, 2), picture(19, 13, 4, 3)
    for name, options in {"420": {"subsampling": 2}, "422": {"subsampling": 1}, "444": {"subsampling": 0},
                          "progressive": {"progressive": True}, "low quality": {"quality": 5}}.items():
        yield "JPEG " + name, save(rgb, "RGB", format="JPEG", **options)
    yield "JPEG grey", save(grey, "L", format="JPEG")
    yield "JPEG CMYK", save(four, "CMYK", format="JPEG")
    yield "PNG RGB", save(rgb, "RGB", format="PNG")
    yield "PNG RGBA", save(four, "RGBA", format="PNG")
    yield "PNG grey", save(grey, "L", format="PNG")
    yield "PNG grey and alpha", save(four[:, :, :2], "LA", format="PNG")
    yield "PNG palette", palette(grey)
    yield "PNG palette with tRNS", palette(grey, chunk(b"tRNS", bytes(range(0, 200, 2))))
    yield "PNG RGB with tRNS", png(2, 1, 8, 2, [bytes([1, 2, 3, 4, 5, 6])],
                                   chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3)))
    yield "PNG grey with tRNS", png(2, 1, 8, 0, [bytes([9, 200])], chunk(b"tRNS", struct.pack(">H", 9)))
    yield "PNG 16-bit RGB", png(3, 1, 16, 2, [struct.pack(">9H", *range(0, 65536, 7300))])
    yield "PNG 16-bit RGBA", png(2, 1, 16, 6, [struct.pack(">8H", *range(100, 65536, 8100)[:8])])
    yield "PNG 16-bit grey and alpha", png(2, 1, 16, 4, [struct.pack(">4H", 511, 0, 40000, 65535)])
    for depth in (1, 2, 4):
        yield f"PNG grey {depth} bits", png(8, 2, depth, 0, [bytes([0x1b, 0xe4, 0x93, 0x5a][:depth]),
                                                            bytes([0x5a, 0x77, 0x01, 0xfe][:depth])])
    yield "PNG gamma ignored", png(2, 1, 8, 2, [bytes([10, 100, 200, 4, 5, 6])],
                                   chunk(b"gAMA", struct.pack(">I", 100000)))


def palette(grey, extra=b""):
    colours = bytes((i * 37 + 11) % 256 for i in range(3 * 256))
    return png(19, 13, 8, 3, [bytes(r) for r in grey.squeeze()], chunk(b"PLTE", colours) + extra)


def sha256(image):
    return hashlib.sha256(image.tobytes()).hexdigest()


def photos():
    print("// golden.py photos: name, file, width, height, SHA-256 of PIL's convert('RGB').")
    for name, data in files():
        image = Image.open(io.BytesIO(data)).convert("RGB")
        text = data.hex()
        print(f'{{"{name}",')
        for i in range(0, len(text), 96):
            print(f' "{text[i:i + 96]}"')
        print(f' , {image.width}, {image.height},\n "{sha256(image)}"}},')


FILTERS = {"kBilinear": Image.BILINEAR, "kBicubic": Image.BICUBIC}


def test_pattern(w, h):
    y, x, c = np.mgrid[0:h, 0:w, 0:3].astype(np.int64)
    return ((x * x * 3 + y * y * 5 + x * y * 7 + c * 91 + ((x // 9 + y // 7) % 2) * 120) % 256).astype(np.uint8)


def resizes():
    print("// golden.py resizes: width, height, new width, new height, filter, SHA-256 of PIL's resize.")
    for w, h, nw, nh in [(64, 48, 20, 15), (64, 48, 100, 80), (37, 53, 37, 20), (37, 53, 50, 53), (301, 7, 11, 7),
                         (500, 375, 341, 256), (5, 5, 1, 1), (1, 1, 9, 4), (640, 200, 33, 31)]:
        for name, f in FILTERS.items():
            image = Image.fromarray(test_pattern(w, h)).resize((nw, nh), f)
            print(f'{{{w}, {h}, {nw}, {nh}, Interpolation::{name},\n "{sha256(image)}"}},')


def centre(image, f):
    w, h = image.size
    nw, nh = (256, int(256 * h / w)) if w <= h else (int(256 * w / h), 256)
    left, top = int(round((nw - 224) / 2.0)), int(round((nh - 224) / 2.0))
    return image.resize((nw, nh), f).crop((left, top, left + 224, top + 224))


def crops(root):
    print("// golden.py crops: file, SHA-256 of its pixels, of Resize(256) and CenterCrop(224), bilinear and bicubic.")
    for name in ["imagenet-sample/n01440764_tench.JPEG", "imagenet-sample/n01484850_great_white_shark.JPEG",
                 "imagenet-sample/n01494475_hammerhead.JPEG", "imagenet-sample/n01514859_hen.JPEG",
                 "flowers/val/daisy/10172379554_b296050f82_n.jpg", "flowers/val/tulip/10164073235_f29931d91e.jpg"]:
        image = Image.open(os.path.join(root, name)).convert("RGB")
        digests = [sha256(image)] + [sha256(centre(image, f)) for f in FILTERS.values()]
        print(f'{{"{name}",' + ",".join(f'\n "{d}"' for d in digests) + "},")


def with_hue(image, part):
    """As torchvision's adjust_hue (functional_pil.py) has it."""
    h, s, v = image.convert("HSV").split()
    turned = np.array(h, dtype=np.uint8)
    with np.errstate(over="ignore"):
        turned += np.int32(part * 255).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned, "L"), s, v)).convert("RGB")


def affine(image, *matrix):
    return image.transform(image.size, Image.AFFINE, matrix, Image.NEAREST, fillcolor=None)


CHANGES = {
    "brightness": lambda i, x: ImageEnhance.Brightness(i).enhance(x),
    "contrast": lambda i, x: ImageEnhance.Contrast(i).enhance(x),
    "saturation": lambda i, x: ImageEnhance.Color(i).enhance(x),
    "sharpness": lambda i, x: ImageEnhance.Sharpness(i).enhance(x),
    "hue": with_hue,
    "posterize": lambda i, x: ImageOps.posterize(i, int(x)),
    "solarize": ImageOps.solarize,
    "autocontrast": lambda i, x: ImageOps.autocontrast(i),
    "equalize": lambda i, x: ImageOps.equalize(i),
    "shear_x": lambda i, x: affine(i, 1, x, 0, 0, 1, 0),
    "shear_y": lambda i, x: affine(i, 1, 0, 0, x, 1, 0),
    "shift_x": lambda i, x: affine(i, 1, 0, -x, 0, 1, 0),
    "shift_y": lambda i, x: affine(i, 1, 0, 0, 0, 1, -x),
    "rotate": lambda i, x: i.rotate(x, Image.NEAREST),
}
FACTORS = [0, 0.1, 0.55, 1, 1.3, 1.9]
STEPS = {"hue": [-0.5, -0.1, 0, 0.03, 0.1, 0.5], "posterize": [8, 7, 4, 1], "solarize": [255, 128.5, 76.5, 0],
         "autocontrast": [0], "equalize": [0], "rotate": [-30, -9, 1, 30],
         "shear_x": [-0.3, 0.09, 0.3], "shear_y": [-0.3, 0.09, 0.3], "shift_x": [-5, 3], "shift_y": [-5, 3]}


def dim(array):
    return (40 + array // 3).astype(np.uint8)


def changes():
    print("// golden.py changes: what, how much, SHA-256 of PIL's pixels of test_pattern(61, 43), and of one that is dim.")
    for what, change in CHANGES.items():
        for x in STEPS.get(what, FACTORS):
            bright, dark = (sha256(change(Image.fromarray(a), x))
                            for a in (test_pattern(61, 43), dim(test_pattern(61, 43))))
            print(f'{{"{what}", {x},\n "{bright}",\n "{dark}"}},')


def operations():
    """RandAugment(num_ops=2, magnitude=9, num_magnitude_bins=31), as torchvision's autoaugment.py has it."""
    print("// golden.py operations: index, direction, SHA-256 of torchvision's RandAugment of test_pattern(61, 43).")
    image = Image.fromarray(test_pattern(61, 43))
    w, h = image.size
    bins, magnitude = 31, 9
    space = [("identity", [0.0] * bins, False), ("shear_x", np.linspace(0, 0.3, bins), True),
             ("shear_y", np.linspace(0, 0.3, bins), True),
             ("shift_x", np.linspace(0, 150.0 / 331.0 * w, bins), True),
             ("shift_y", np.linspace(0, 150.0 / 331.0 * h, bins), True), ("rotate", np.linspace(0, 30, bins), True),
             ("brightness", np.linspace(0, 0.9, bins), True), ("saturation", np.linspace(0, 0.9, bins), True),
             ("contrast", np.linspace(0, 0.9, bins), True), ("sharpness", np.linspace(0, 0.9, bins), True),
             ("posterize", 8 - (np.arange(bins) / ((bins - 1) / 4)).round().astype(int), False),
             ("solarize", np.linspace(255, 0, bins), False), ("autocontrast", [0.0] * bins, False),
             ("equalize", [0.0] * bins, False)]
    for index, (name, magnitudes, signed) in enumerate(space):
        for negative in (False, True):
            x = float(magnitudes[magnitude]) * (-1 if negative and signed else 1)
            if name.startswith("shift"):
                x = int(x)
            if name in ("brightness", "saturation", "contrast", "sharpness"):
                x = 1 + x
            out = image if name == "identity" else CHANGES[name](image, x)
            print(f'{{{index}, {"true" if negative else "false"}, "{sha256(out)}"}},')


def mixes():
    """torchvision's v2.MixUp and v2.CutMix of two pictures 10 pixels wide and high, made of k % 7 and k % 5."""
    import torch
    from torchvision.transforms import v2
    print("// golden.py mixes: what, share, x and y that are drawn, sum over k of (k % 11) times the first picture's value k, its soft label.")
    pictures = torch.stack([torch.arange(300) % 7, torch.arange(300) % 5]).reshape(2, 3, 10, 10).float()
    place = torch.arange(300).reshape(3, 10, 10).double() % 11
    for kind, draws in {v2.MixUp: [(0, 0)], v2.CutMix: [(0, 0), (4, 7), (9, 5)]}.items():
        for share in (0.05, 0.3, 0.5, 0.9):
            for x, y in draws:
                mix = kind(alpha=1.0, num_classes=2)
                mix._dist = type("Given", (), {"sample": lambda self, shape, share=share: torch.tensor(share, dtype=torch.float64)})()
                drawn = iter((x, y))
                randint, torch.randint = torch.randint, lambda *_, **__: torch.tensor([next(drawn)])
                out, labels = mix(pictures, torch.tensor([0, 1]))
                torch.randint = randint
                print(f'{{"{kind.__name__.lower()}", {share}, {x}, {y}, {(out[0].double() * place).sum().item():.9g}, '
                      f"{labels[0, 0].item():.9g}, {labels[0, 1].item():.9g}}},")


if __name__ == "__main__":
    {"photos": photos, "resizes": resizes, "crops": crops, "changes": changes, "operations": operations,
     "mixes": mixes}[sys.argv[1]](*sys.argv[2:])
