"""Writes images.safetensors: how Pillow decodes small files and what torchvision makes of them.

    pip install numpy==2.* pillow==13.* torch==2.13.0 torchvision==0.28.0 safetensors==0.*
    python tests/golden/images.py

`file.NAME` holds the bytes of a file and `rgb.NAME` what Pillow decodes from it: upright, as RGB.
16-bit grey is scaled to 8 bits here, which Pillow itself does not do. `center.*`, `crop.*` and
`jitter.*` are made from the image in `file.png`. `large.NAME` holds files of images that are worth
decoding at a part of their size, and `reduced.NAME` what Pillow makes of the whole of them, reduced
to a shorter side of 11 pixels.
"""

import io
import pathlib

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors.numpy import save_file
from torchvision import transforms
from torchvision.transforms import functional as F

WIDTH, HEIGHT = 61, 47
y, x = np.mgrid[0:HEIGHT, 0:WIDTH] / HEIGHT
waves = [np.sin(9 * x + 4 * y), np.cos(7 * y - 3 * x * x), np.sin(5 * x * y + 1)]
noise = np.random.default_rng(0).normal(0, 6, (HEIGHT, WIDTH, 3))
original = Image.fromarray(np.clip(127 + 110 * np.stack(waves, -1) + noise, 0, 255).astype(np.uint8))
out = {}


def encode(image, format, **options):
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def keep(name, data, expected=None):
    if expected is None:
        expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    out[f"file.{name}"] = np.frombuffer(data, dtype=np.uint8).copy()
    out[f"rgb.{name}"] = np.ascontiguousarray(expected)


rotated = Image.Exif()
rotated[0x0112] = 6
keep("png", encode(original, "PNG"))
keep("jpeg", encode(original, "JPEG", quality=90))
keep("jpeg_444", encode(original, "JPEG", quality=90, subsampling=0))
keep("jpeg_422", encode(original, "JPEG", quality=90, subsampling=1))
keep("jpeg_progressive", encode(original, "JPEG", quality=90, progressive=True))
keep("jpeg_grey", encode(original.convert("L"), "JPEG", quality=90))
keep("jpeg_cmyk", encode(original.convert("CMYK"), "JPEG", quality=90, subsampling=0))
keep("jpeg_rotated", encode(original, "JPEG", quality=90, exif=rotated.tobytes()))
keep("png_palette", encode(original.quantize(64), "PNG"))
keep("png_rgba", encode(Image.merge("RGBA", [*original.split(), original.split()[0]]), "PNG"))
keep("png_bits", encode(original.convert("1"), "PNG"))
grey16 = np.asarray(original.convert("L")).astype(np.uint16) * 257
keep("png_grey16", encode(Image.fromarray(grey16), "PNG"), np.repeat((grey16 // 257).astype(np.uint8)[..., None], 3, -1))
keep("webp", encode(original, "WEBP", lossless=True))
keep("bmp", encode(original, "BMP"))
keep("gif", encode(original.quantize(64), "GIF"))
keep("tiff", encode(original, "TIFF"))

y, x = np.mgrid[0:128, 0:192] / 128
waves = [np.sin(9 * x + 4 * y), np.cos(7 * y - 3 * x * x), np.sin(5 * x * y + 1)]
large = Image.fromarray((127 + 110 * np.stack(waves, -1)).astype(np.uint8))
for name, image, options in [
    ("baseline", large, {}),
    ("progressive", large, {"progressive": True}),
    ("grey", large.convert("L"), {}),
    ("rotated", large, {"exif": rotated.tobytes()}),
    ("cmyk", large.convert("CMYK"), {}),
]:
    data = encode(image, "JPEG", quality=90, **options)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    out[f"large.{name}"] = np.frombuffer(data, dtype=np.uint8).copy()
    out[f"reduced.{name}"] = np.asarray(F.resize(upright, 11))

for resize, size in [(40, 32), (32, 32), (96, 80), (20, 17)]:
    for filter, mode in [("bilinear", F.InterpolationMode.BILINEAR), ("bicubic", F.InterpolationMode.BICUBIC)]:
        pipeline = transforms.Compose([transforms.Resize(resize, mode), transforms.CenterCrop(size)])
        out[f"center.{filter}.{resize}.{size}"] = np.asarray(pipeline(original))
for left, top, width, height, size in [(0, 0, 61, 47, 24), (7, 5, 30, 31, 48), (20, 3, 9, 40, 32)]:
    part = F.resized_crop(original, top, left, height, width, [size, size], F.InterpolationMode.BILINEAR)
    out[f"crop.{left}.{top}.{width}.{height}.{size}"] = np.asarray(part)
for name, change in [
    ("brightness", F.adjust_brightness),
    ("contrast", F.adjust_contrast),
    ("saturation", F.adjust_saturation),
]:
    for factor in [0.0, 0.4, 1.3, 2.5]:
        out[f"jitter.{name}.{factor}"] = np.asarray(change(original, factor))
for turn in [-0.5, -0.1, 0.07, 0.4]:
    out[f"jitter.hue.{turn}"] = np.asarray(F.adjust_hue(original, turn))

save_file({name: np.ascontiguousarray(value) for name, value in out.items()}, pathlib.Path(__file__).with_suffix(".safetensors"))
