"""Embeddings of a folder of PPM images by an exported model: `torchscript.py MODEL FOLDER`.

Prints all numbers as one JSON list, in the order of the paths. Batches of different sizes show that a
model is not bound to the one it was traced with.
"""

import json
import sys
from pathlib import Path

import torch


def image(path):
    header, size, depth, pixels = path.read_bytes().split(b"\n", 3)
    assert header == b"P6" and depth == b"255"
    width, height = map(int, size.split())
    pixels = torch.frombuffer(bytearray(pixels), dtype=torch.uint8)
    return pixels.reshape(height, width, 3).permute(2, 0, 1).float() / 255


model = torch.jit.load(sys.argv[1])
images = torch.stack([image(path) for path in sorted(Path(sys.argv[2]).rglob("*.ppm"))])
with torch.no_grad():
    embeddings = torch.cat([model(batch) for batch in images.split([1, 3, len(images) - 4])])
print(json.dumps(embeddings.flatten().tolist()))
