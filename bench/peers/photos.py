"""Our pixels of photos in formats of phones and cameras against PIL's, with pillow-heif for HEIC.

usage: photos.py DECODE PHOTOS [--count 40] [--keep DIRECTORY]   (pip: pillow pillow-heif numpy)

DECODE is the build's bin/ndt_decode_photos, PHOTOS a folder whose JPEGs are written anew: in each format, with colour
profiles that are wider than sRGB's, with each orientation. PIL turns them upright by ImageOps.exif_transpose, and their
colours to sRGB's by ImageCms.profileToProfile. Prints the greatest difference by kind of file, in levels of 255, and the
share of values that differ by more than one. Exit 1 when one is above 2.
"""
import argparse
import glob
import io
import os
import subprocess
import sys
import tempfile

import numpy as np
import pillow_heif
from PIL import Image, ImageCms, ImageOps

from profiles import ADOBE_RGB, DISPLAY_P3, rgb_profile

LIMIT = 2


def exif(orientation):
    e = Image.Exif()
    e[0x0112] = orientation
    return e.tobytes()


def odd(image):
    """No side is a multiple of two."""
    return image.crop((0, 0, image.width - 1 + image.width % 2, image.height - 1 + image.height % 2))


def even(image):
    """What cameras write. libheif before and after 1.16 take different chromas at odd sides that are turned."""
    return image.crop((0, 0, image.width // 2 * 2, image.height // 2 * 2))


def palette_gif(image):
    return image.quantize(200)


def sixteen_bit_tiff(image):
    """RGB of 16 bits a sample, big endian, one strip; PIL writes none."""
    import struct
    pixels = np.asarray(image).astype(">u2") * 257
    w, h = image.size
    data = pixels.tobytes()
    entries = [(256, 4, 1, w), (257, 4, 1, h), (258, 3, 3, 8 + len(data)), (259, 3, 1, 1 << 16), (262, 3, 1, 2 << 16),
               (273, 4, 1, 8), (277, 3, 1, 3 << 16), (278, 4, 1, h), (279, 4, 1, len(data))]
    return (b"MM\0*" + struct.pack(">I", 8 + len(data) + 6) + data + struct.pack(">3H", 16, 16, 16)
            + struct.pack(">H", len(entries)) + b"".join(struct.pack(">HHII", *e) for e in entries) + bytes(4))


def tiled_tiff(image):
    """Tiles of 64 x 64, which PIL reads and does not write."""
    import struct
    w, h, side = *image.size, 64
    across, down = -(-w // side), -(-h // side)
    padded = np.zeros((down * side, across * side, 3), np.uint8)
    padded[:h, :w] = np.asarray(image)
    tiles = [padded[y * side:(y + 1) * side, x * side:(x + 1) * side].tobytes() for y in range(down) for x in range(across)]
    n, data, size = len(tiles), b"".join(tiles), side * side * 3
    extra = 8 + len(data)
    entries = [(256, 4, 1, w), (257, 4, 1, h), (258, 3, 3, extra), (259, 3, 1, 1), (262, 3, 1, 2), (277, 3, 1, 3),
               (322, 4, 1, side), (323, 4, 1, side), (324, 4, n, extra + 6), (325, 4, n, extra + 6 + 4 * n)]
    if n == 1:
        entries[-2:] = [(324, 4, 1, 8), (325, 4, 1, size)]
    tables = struct.pack("<3H", 8, 8, 8) + struct.pack(f"<{n}I", *(8 + i * size for i in range(n))) + struct.pack(f"<{n}I", *[size] * n)
    return (b"II*\0" + struct.pack("<I", extra + len(tables)) + data + tables + struct.pack("<H", len(entries))
            + b"".join(struct.pack("<HHII", *e) for e in entries) + bytes(4))


KINDS = {
    "HEIC": lambda i: (i, "heic", {"quality": 80}),
    "HEIC 4:4:4": lambda i: (i, "heic", {"chroma": 444}),
    "HEIC 4:2:2, odd sides": lambda i: (odd(i), "heic", {"chroma": 422}),
    "HEIC grey": lambda i: (i.convert("L"), "heic", {}),
    "HEIC with alpha": lambda i: (with_alpha(i), "heic", {}),
    "HEIC of 10 bits": lambda i: (i, "heic10", {}),
    "AVIF": lambda i: (i, "avif", {"quality": 80, "speed": 9}),
    "AVIF 4:4:4": lambda i: (i, "avif", {"subsampling": "4:4:4", "speed": 9}),
    "AVIF 4:2:2, odd sides": lambda i: (odd(i), "avif", {"subsampling": "4:2:2", "speed": 9}),
    "AVIF odd sides": lambda i: (odd(i), "avif", {"speed": 9}),
    "AVIF of 16 … 235": lambda i: (i, "avif", {"range": "limited", "speed": 9}),
    "AVIF grey": lambda i: (i, "avif", {"subsampling": "4:0:0", "speed": 9}),
    "AVIF with alpha": lambda i: (with_alpha(i), "avif", {"speed": 9}),
    "WebP lossy": lambda i: (i, "webp", {"quality": 80}),
    "WebP lossless": lambda i: (i, "webp", {"lossless": True, "method": 1}),
    "WebP lossy with alpha": lambda i: (with_alpha(i), "webp", {}),
    "WebP lossless with alpha": lambda i: (with_alpha(i), "webp", {"lossless": True, "exact": True, "method": 1}),
    "WebP animated": lambda i: (i, "webp", {"save_all": True, "append_images": [ImageOps.mirror(i)]}),
    "GIF": lambda i: (palette_gif(i), "gif", {}),
    "GIF interlaced": lambda i: (palette_gif(i), "gif", {"interlace": 1}),
    "GIF not interlaced": lambda i: (palette_gif(i), "gif", {"interlace": 0}),
    "GIF grey": lambda i: (i.convert("L"), "gif", {}),
    "GIF with transparency": lambda i: (palette_gif(i), "gif", {"transparency": 7}),
    "GIF animated": lambda i: (palette_gif(i), "gif", {"save_all": True, "append_images": [palette_gif(ImageOps.mirror(i))]}),
    "TIFF": lambda i: (i, "tiff", {}),
    "TIFF LZW": lambda i: (i, "tiff", {"compression": "tiff_lzw"}),
    "TIFF deflate": lambda i: (i, "tiff", {"compression": "tiff_adobe_deflate"}),
    "TIFF PackBits": lambda i: (i, "tiff", {"compression": "packbits"}),
    "TIFF JPEG": lambda i: (i, "tiff", {"compression": "jpeg", "quality": 90}),
    "TIFF grey JPEG": lambda i: (i.convert("L"), "tiff", {"compression": "jpeg"}),
    "TIFF grey": lambda i: (i.convert("L"), "tiff", {}),
    "TIFF palette": lambda i: (palette_gif(i), "tiff", {}),
    "TIFF one bit, fax": lambda i: (i.convert("1"), "tiff", {"compression": "group4"}),
    "TIFF with alpha": lambda i: (with_alpha(i), "tiff", {"compression": "tiff_lzw"}),
    "TIFF CMYK": lambda i: (i.convert("CMYK"), "tiff", {"compression": "tiff_lzw"}),
    "TIFF of 16 bits": lambda i: (sixteen_bit_tiff(i), "tiff", None),
    "TIFF tiled": lambda i: (tiled_tiff(i), "tiff", None),
}
for name, icc in {"Display P3": rgb_profile(*DISPLAY_P3), "Adobe RGB": rgb_profile(*ADOBE_RGB)}.items():
    for f, o in {"heic": {}, "avif": {"speed": 9}, "webp": {"lossless": True, "method": 1}, "tiff": {}, "jpeg": {}, "png": {}}.items():
        KINDS[f"{name}, {f}"] = lambda i, f=f, o=o, icc=icc: (i, f, {**o, "icc_profile": icc})
for n in range(1, 9):
    for f, o in {"heic": {}, "avif": {"speed": 9}, "webp": {}, "tiff": {}, "jpeg": {}, "png": {}}.items():
        KINDS[f"orientation {n}, {f}"] = lambda i, f=f, o=o, n=n: ((even if f == "heic" else odd if n % 2 else lambda x: x)(i), f, {**o, "exif": exif(n)})


def with_alpha(image):
    y, x = np.mgrid[0:image.height, 0:image.width]
    alpha = np.where((x // 16 + y // 16) % 3 == 0, 0, (x * 255 // image.width)).astype(np.uint8)
    return Image.merge("RGBA", (*image.split(), Image.fromarray(alpha)))


def write(path, image, form, options):
    if options is None:
        with open(path, "wb") as f:
            f.write(image)
    elif form == "heic10":
        deep = np.asarray(image).astype(np.uint16) << 8
        pillow_heif.from_bytes("RGB;16", image.size, deep.tobytes()).save(path, quality=80)
    else:
        image.save(path, format={"heic": "HEIF"}.get(form, form.upper()), **options)


def by_pil(path):
    image = Image.open(path)
    icc = image.info.get("icc_profile")
    image = ImageOps.exif_transpose(image).convert("RGB")
    if icc:
        image = ImageCms.profileToProfile(image, ImageCms.ImageCmsProfile(io.BytesIO(icc)), ImageCms.createProfile("sRGB"),
                                          outputMode="RGB")
    return np.asarray(image)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("decode")
    parser.add_argument("photos")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--kind", default="", help="only kinds that have this in their name")
    parser.add_argument("--keep")
    args = parser.parse_args()
    pillow_heif.register_heif_opener()
    names = sorted(glob.glob(os.path.join(args.photos, "**", "*.jpg"), recursive=True))
    names = names[::max(1, len(names) // args.count)][:args.count]
    photos = [Image.open(n).convert("RGB") for n in names]
    bad = 0
    print(f"{len(photos)} photos\n{'kind':28} {'levels':>6} {'above 1':>8}  not read")
    for kind, make in KINDS.items():
        if args.kind not in kind:
            continue
        with tempfile.TemporaryDirectory() as made:
            folder = os.path.join(args.keep, kind) if args.keep else made
            os.makedirs(folder, exist_ok=True)
            paths = []
            for i, photo in enumerate(photos):
                image, form, options = make(photo)
                paths.append(os.path.join(folder, f"{i}.{form.rstrip('10')}"))
                write(paths[-1], image, form, options)
            told = subprocess.run([args.decode, made, *paths], capture_output=True, text=True, check=True).stdout
            unread = [line for line in told.splitlines() if line.split()[1] != "ok"]
            worst, above, values = 0, 0, 0
            for i, path in enumerate(paths):
                ours = os.path.join(made, f"{i}.ppm")
                if not os.path.exists(ours):
                    continue
                a, b = np.asarray(Image.open(ours)).astype(int), by_pil(path).astype(int)
                if a.shape != b.shape:
                    unread.append(f"{i} is {a.shape}, PIL's {b.shape}")
                    continue
                d = np.abs(a - b)
                worst, above, values = max(worst, d.max()), above + (d > 1).sum(), values + d.size
            bad += worst > LIMIT or len(unread) > 0
            print(f"{kind:28} {worst:6} {above / max(values, 1):8.2%}  {len(unread)} {unread[0] if unread else ''}", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
