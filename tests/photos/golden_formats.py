#!/usr/bin/env python3
"""Small files of the formats besides JPEG and PNG, and of all with colour profiles, and what PIL makes of them.

    golden_formats.py JPEG PNG WebP GIF profile > golden_formats.inc
    golden_formats.py TIFF > golden_tiff.inc
    golden_formats.py HEIC AVIF > golden_heif.inc

Needs numpy, Pillow 12 or later, pillow-heif.
"""
import hashlib
import io
import os
import struct
import sys

import numpy as np
import pillow_heif
from PIL import Image, ImageCms, ImageOps

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/peers"))
from profiles import ADOBE_RGB, DISPLAY_P3, SRGB, rgb_profile  # noqa: E402

P3 = rgb_profile(DISPLAY_P3[0], ADOBE_RGB[1])  # a gamma takes less room than a table
W, H = 20, 14


def picture(channels, w=W, h=H):
    y, x, c = np.mgrid[0:h, 0:w, 0:channels]
    return ((x * 11 + y * 9 * (1 + c % 2) + c * 70) % 256).astype(np.uint8)


RGB = Image.fromarray(picture(3))
RGBA = Image.fromarray(picture(4))
GREY = Image.fromarray(picture(1)[:, :, 0])
PALETTE = RGB.quantize(40)


def save(image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def exif(orientation):
    e = Image.Exif()
    e[0x0112] = orientation
    return e.tobytes()


def gif_with_frame(left, top, transparent):
    """A canvas of 12 x 10, in which a frame of 8 x 6 begins at (left, top), with a palette of its own."""
    frame = save(PALETTE.crop((0, 0, 8, 6)), "GIF", interlace=0)
    at = frame.index(b"\x2c\0\0\0\0\x08\0\x06\0")
    colours = bytes((i * 41 + 7) % 256 for i in range(3 * 64))
    control = b"\x21\xf9\x04\x01\0\0" + bytes([transparent]) + b"\0" if transparent is not None else b""
    data = frame[at + 10:]
    return (b"GIF89a" + struct.pack("<HHBBB", 12, 10, 0x80 | 5, 3, 0) + colours + control
            + b"\x2c" + struct.pack("<HHHHB", left, top, 8, 6, 0x80 | 5) + colours[::-1] + data)


def tiff(order, entries, data, tables=b""):
    """`data` at 8, `tables` behind it, then the directory."""
    head = (b"MM\0*" if order == ">" else b"II*\0") + struct.pack(order + "I", 8 + len(data) + len(tables))
    return (head + data + tables + struct.pack(order + "H", len(entries))
            + b"".join(struct.pack(order + "HHI", t, kind, n) + (struct.pack(order + "Hxx", v) if kind == 3 and n == 1 else struct.pack(order + "I", v))
                       for t, kind, n, v in entries) + bytes(4))


def tiff_of_16_bits():
    data = (picture(3).astype(">u2") * 257).tobytes()
    return tiff(">", [(256, 4, 1, W), (257, 4, 1, H), (258, 3, 3, 8 + len(data)), (259, 3, 1, 1), (262, 3, 1, 2), (273, 4, 1, 8),
                      (277, 3, 1, 3), (278, 4, 1, H), (279, 4, 1, len(data))], data, struct.pack(">3H", 16, 16, 16))


def tiff_in_planes():
    data = b"".join(picture(3)[:, :, c].tobytes() for c in range(3))
    at, n = 8 + len(data), W * H
    tables = struct.pack("<3H", 8, 8, 8) + bytes(2) + struct.pack("<6I", 8, 8 + n, 8 + 2 * n, n, n, n)
    return tiff("<", [(256, 4, 1, W), (257, 4, 1, H), (258, 3, 3, at), (259, 3, 1, 1), (262, 3, 1, 2), (273, 4, 3, at + 8),
                      (277, 3, 1, 3), (278, 4, 1, H), (279, 4, 3, at + 20), (284, 3, 1, 2)], data, tables)


def tiff_in_tiles():
    side, across = 16, 2
    padded = np.zeros((side, across * side, 3), np.uint8)
    padded[:H, :W] = picture(3)
    data = b"".join(padded[:, x * side:(x + 1) * side].tobytes() for x in range(across))
    at, size = 8 + len(data), side * side * 3
    tables = struct.pack("<3H", 8, 8, 8) + bytes(2) + struct.pack("<4I", 8, 8 + size, size, size)
    return tiff("<", [(256, 4, 1, W), (257, 4, 1, H), (258, 3, 3, at), (259, 3, 1, 1), (262, 3, 1, 2), (277, 3, 1, 3), (322, 4, 1, side),
                      (323, 4, 1, side), (324, 4, 2, at + 8), (325, 4, 2, at + 16)], data, tables)


def exact():
    yield "WebP", "lossy", save(RGB, "WEBP", quality=80)
    yield "WebP", "lossless", save(RGB, "WEBP", lossless=True)
    yield "WebP", "lossy with alpha", save(RGBA, "WEBP", quality=80)
    yield "WebP", "lossless with alpha", save(RGBA, "WEBP", lossless=True, exact=True)
    yield "WebP", "animated", save(RGB, "WEBP", save_all=True, append_images=[ImageOps.mirror(RGB)], lossless=True)
    yield "WebP", "turned", save(RGB, "WEBP", exif=exif(6))
    yield "WebP", "wide colours", save(RGB, "WEBP", lossless=True, icc_profile=P3)
    yield "GIF", "interlaced", save(PALETTE, "GIF", interlace=1)
    yield "GIF", "not interlaced", save(PALETTE, "GIF", interlace=0)
    yield "GIF", "transparent", save(PALETTE, "GIF", transparency=4)
    yield "GIF", "grey", save(GREY, "GIF")
    yield "GIF", "animated", save(PALETTE, "GIF", save_all=True, append_images=[ImageOps.mirror(RGB).quantize(30)])
    yield "GIF", "frame inside", gif_with_frame(2, 3, None)
    yield "GIF", "frame inside, transparent", gif_with_frame(2, 3, 5)
    yield "GIF", "frame beyond the canvas", gif_with_frame(9, 7, 5)
    for name in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"):
        yield "TIFF", name, save(RGB, "TIFF", compression=name)
    yield "TIFF", "plain", save(RGB, "TIFF")
    yield "TIFF", "grey", save(GREY, "TIFF")
    yield "TIFF", "palette", save(PALETTE, "TIFF")
    yield "TIFF", "one bit", save(GREY.convert("1"), "TIFF")
    yield "TIFF", "one bit, fax", save(GREY.convert("1"), "TIFF", compression="group4")
    yield "TIFF", "alpha", save(RGBA, "TIFF", compression="tiff_lzw")
    yield "TIFF", "CMYK", save(Image.fromarray(picture(4), "CMYK"), "TIFF", compression="tiff_lzw")
    yield "TIFF", "sixteen bits", tiff_of_16_bits()
    yield "TIFF", "planes", tiff_in_planes()
    yield "TIFF", "tiles", tiff_in_tiles()
    yield "TIFF", "turned", save(RGB, "TIFF", exif=exif(5))
    yield "TIFF", "wide colours", save(RGB, "TIFF", compression="tiff_lzw", icc_profile=P3)
    yield "PNG", "wide colours", save(RGB, "PNG", icc_profile=P3)
    yield "JPEG", "wide colours", save(RGB, "JPEG", icc_profile=P3)
    yield "JPEG", "wide colours in many chunks", in_chunks(save(RGB, "JPEG", icc_profile=P3), P3)


def in_chunks(jpeg, icc, size=100):
    """The last one first."""
    parts = [icc[i:i + size] for i in range(0, len(icc), size)]
    whole = struct.pack(">HH", 0xffe2, len(icc) + 16) + b"ICC_PROFILE\0\1\1" + icc
    return jpeg.replace(whole, b"".join(struct.pack(">HH", 0xffe2, len(p) + 16) + b"ICC_PROFILE\0" + bytes([n, len(parts)]) + p
                                        for n, p in reversed(list(enumerate(parts, 1)))))


def near():
    small = Image.fromarray(picture(3, 16, 12))
    yield "HEIC", "plain", save(small, "HEIF", quality=70)
    yield "HEIC", "turned", save(small, "HEIF", quality=70, exif=exif(6))
    yield "HEIC", "wide colours", save(small, "HEIF", quality=70, icc_profile=P3)
    yield "AVIF", "plain", save(small, "AVIF", quality=70)
    yield "AVIF", "turned", save(small, "AVIF", quality=70, exif=exif(6))
    yield "AVIF", "mirrored and turned", save(small, "AVIF", quality=70, exif=exif(7))
    yield "AVIF", "wide colours", save(small, "AVIF", quality=70, icc_profile=P3)
    yield "AVIF", "alpha", save(Image.fromarray(picture(4, 16, 12)), "AVIF", quality=70)


def by_pil(file):
    image = Image.open(io.BytesIO(file))
    icc = image.info.get("icc_profile")
    image = ImageOps.exif_transpose(image).convert("RGB")
    if icc:
        image = ImageCms.profileToProfile(image, ImageCms.ImageCmsProfile(io.BytesIO(icc)), ImageCms.createProfile("sRGB"),
                                          outputMode="RGB")
    return image


def literal(data):
    text = data.hex()
    return "\n".join(f' "{text[i:i + 96]}"' for i in range(0, len(text), 96))


def profiles():
    yield "profile", "sRGB's own", rgb_profile(*SRGB, points=256)
    yield "profile", "wide", P3


def main():
    pillow_heif.register_heif_opener()
    print("// golden_formats.py: format, name, file, width, height of what PIL makes of it, and the SHA-256 of that or all of it.")
    for files, told in ((exact(), lambda i: f' "{hashlib.sha256(i.tobytes()).hexdigest()}"'), (near(), lambda i: literal(i.tobytes())),
                        (profiles(), None)):
        for form, name, file in files:
            if form not in sys.argv[1:]:
                continue
            image = by_pil(file) if told else Image.new("RGB", (0, 0))
            print(f'{{"{form}", "{name}",\n{literal(file)},\n {image.width}, {image.height},\n{told(image) if told else chr(34) * 2}}},')


if __name__ == "__main__":
    main()
