"""The torchvision side of `cargo bench -p curricle-engine --bench loader`; needs torchvision and Pillow.

Arguments: folder, size, workers. For each line on standard input, loads every JPEG below the folder
once (decode, random resized crop, flip, tensor, normalise, in batches of 64) and prints the seconds
it took.
"""

import os
import pathlib
import sys
import time

# Lets torch load without its CUDA libraries, which are never called.
sys.setdlopenflags(os.RTLD_LAZY)

import torch
from PIL import Image
from torchvision import transforms as T

folder, size, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
paths = sorted(pathlib.Path(folder).rglob("*.jpg"))
mean, deviation = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
train = T.Compose([T.RandomResizedCrop(size), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(mean, deviation)])


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return len(paths)

    def __getitem__(self, i):
        return train(Image.open(paths[i]).convert("RGB"))


for _ in sys.stdin:
    start, seen = time.perf_counter(), 0
    for batch in torch.utils.data.DataLoader(Images(), batch_size=64, num_workers=workers):
        seen += len(batch)
    assert seen == len(paths)
    print(time.perf_counter() - start, flush=True)
