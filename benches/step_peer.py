"""The PyTorch side of `cargo bench -p curricle --bench step`; needs torch, torchvision, pytorch-metric-learning, Pillow.

`draw FOLDER` generates JPEG images of 500 x 375 pixels below FOLDER/images, one folder per class.
`train FOLDER NETWORK BATCHES THREADS plain|tuned [DEVICE]` waits for lines on standard input; for each it trains an
epoch of BATCHES batches of 32 and prints the seconds. `tuned` uses channels-last networks and the fused optimiser.
"""

import pathlib
import random
import sys
import time

CLASSES, PER_CLASS = 16, 16


def draw(folder):
    import numpy as np
    from PIL import Image

    numbers = np.random.default_rng(0)
    for label in range(CLASSES):
        target = folder / "images" / f"class-{label:02}"
        target.mkdir(parents=True, exist_ok=True)
        for sample in range(PER_CLASS):
            # Blurred noise compresses about as well as photographs.
            small = numbers.integers(0, 256, (47, 63, 3), dtype=np.uint8)
            image = Image.fromarray(small).resize((500, 375), Image.Resampling.BICUBIC)
            grain = numbers.normal(0, 6, (375, 500, 3))
            pixels = np.clip(np.asarray(image, dtype=np.float32) + grain, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(target / f"{sample}.jpg", quality=90)


def train(folder, network, batches, threads, how, device="cpu"):
    import torch
    import torchvision
    from PIL import Image
    from pytorch_metric_learning import losses, miners
    from torchvision import transforms as T

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    tuned = how == "tuned"
    paths = sorted((folder / "images").glob("*/*.jpg"))
    labels = [int(path.parent.name[-2:]) for path in paths]
    transform = T.Compose(
        [
            T.RandomResizedCrop(224),
            T.RandomHorizontalFlip(),
            T.ToTensor(),
            T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return len(paths)

        def __getitem__(self, index):
            return transform(Image.open(paths[index]).convert("RGB")), labels[index]

    class Batches:
        """Eight classes of four images each."""

        def __len__(self):
            return batches

        def __iter__(self):
            for _ in range(batches):
                chosen = random.sample(range(CLASSES), 8)
                yield [label * PER_CLASS + i for label in chosen for i in random.sample(range(PER_CLASS), 4)]

    model = getattr(torchvision.models, network)()
    if network.startswith("resnet"):
        model.fc = torch.nn.Linear(model.fc.in_features, 128)
    else:
        # No dropout, as in curricle.
        model.classifier = torch.nn.Linear(model.last_channel, 128)
    model = model.to(device)
    if tuned:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True if tuned else None)
    miner, loss_of = miners.MultiSimilarityMiner(), losses.MultiSimilarityLoss(alpha=2, beta=50, base=0.5)
    loader = torch.utils.data.DataLoader(
        Images(), batch_sampler=Batches(), num_workers=threads, persistent_workers=True, pin_memory=device != "cpu"
    )

    def epoch():
        total = 0.0
        for images, target in loader:
            images, target = images.to(device, non_blocking=True), target.to(device, non_blocking=True)
            if tuned:
                images = images.contiguous(memory_format=torch.channels_last)
            embeddings = torch.nn.functional.normalize(model(images))
            loss = loss_of(embeddings, target, miner(embeddings, target))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        return float(total)

    for _ in sys.stdin:
        start = time.perf_counter()
        epoch()
        print(time.perf_counter() - start, flush=True)


if sys.argv[1] == "draw":
    draw(pathlib.Path(sys.argv[2]))
else:
    train(pathlib.Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), *sys.argv[6:])
