"""`curricle audit --images` beside cleanlab on a folder of images: accuracy, number of suspects and time.

Copies a folder that has one subfolder per class, moves some images to a wrong class, and lets both find them with
the same pretrained MobileNet-V2. cleanlab gets features of torchvision and out-of-sample probabilities of a logistic
regression in five folds. Needs `pip install cleanlab scikit-learn torchvision`.

    python benches/audit_folder.py photos --weights mobilenet_v2.pth --program target/release/curricle
"""

import argparse
import csv
import os
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torchvision
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

METHODS = ["self_confidence", "normalized_margin"]


def spoiled(source, target, classes, ratio):
    """Copies the first classes and moves some images to another class; the paths of those."""
    generator = random.Random(0)
    names = sorted(folder.name for folder in source.iterdir() if folder.is_dir())[:classes]
    wrong = set()
    for name in names:
        (target / name).mkdir(parents=True)
    for name in names:
        for file in sorted((source / name).iterdir()):
            flip = generator.random() < ratio
            label = generator.choice([other for other in names if other != name]) if flip else name
            # The name of the file must not tell its class.
            place = Path(label) / f"{generator.getrandbits(64):016x}{file.suffix}"
            shutil.copy(file, target / place)
            wrong |= {str(place)} if flip else set()
    return wrong


def curricle(arguments, folder, runs):
    """Paths in the order of the ranking, those suspected, seconds."""
    start = time.perf_counter()
    command = [arguments.program, "audit", "--images", folder, "--weights", arguments.weights, "--out", runs / "audit"]
    subprocess.run([*command, "--runs", runs], check=True, capture_output=True)
    seconds = time.perf_counter() - start
    table = list(csv.DictReader((runs / "audit" / "audit.csv").open()))
    return [row["path"] for row in table], {row["path"] for row in table if row["suspected"] == "true"}, seconds


class Images(torch.utils.data.Dataset):
    """Images as a trained torchvision network expects them: the central square at 224 pixels."""

    def __init__(self, paths):
        self.paths = paths
        self.prepare = torchvision.models.MobileNet_V2_Weights.IMAGENET1K_V1.transforms(resize_size=256)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.prepare(Image.open(self.paths[index]).convert("RGB"))


def cleanlab(arguments, folder):
    """For each of two ways to score a label, the same; training of the classifier is included."""
    start = time.perf_counter()
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    classes = sorted({path.parent.name for path in paths})
    labels = np.array([classes.index(path.parent.name) for path in paths])
    network = torchvision.models.mobilenet_v2()
    network.load_state_dict(torch.load(arguments.weights), strict=False)
    network.classifier = torch.nn.Identity()
    loader = torch.utils.data.DataLoader(Images(paths), batch_size=64, num_workers=os.cpu_count())
    with torch.inference_mode():
        network.eval()
        features = torch.cat([network(batch) for batch in loader]).numpy()
    model = LogisticRegression(C=0.01, max_iter=200)
    scaled = StandardScaler().fit_transform(features)
    probabilities = cross_val_predict(model, scaled, labels, cv=5, method="predict_proba")
    issues = find_label_issues(labels, probabilities)
    seconds = time.perf_counter() - start
    names = np.array([str(path.relative_to(folder)) for path in paths])
    for method in METHODS:
        order = np.argsort(get_label_quality_scores(labels, probabilities, method=method))
        yield f"cleanlab, {method}", (names[order].tolist(), set(names[issues]), seconds)


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("images", type=Path)
parser.add_argument("--weights", required=True, help="MobileNet-V2 as torchvision saves it")
parser.add_argument("--program", default="target/release/curricle")
parser.add_argument("--classes", type=int, default=20)
parser.add_argument("--ratio", type=float, default=0.1)
arguments = parser.parse_args()
with tempfile.TemporaryDirectory() as scratch:
    folder = Path(scratch) / "images"
    wrong = spoiled(arguments.images, folder, arguments.classes, arguments.ratio)
    count = sum(path.is_file() for path in folder.rglob("*"))
    print(f"{count} images of {arguments.classes} classes, {len(wrong)} moved to another class\n")
    print("| tool | AUROC | AP | suspects | precision | recall | seconds |\n| --- | --- | --- | --- | --- | --- | --- |")
    found = [("curricle", curricle(arguments, folder, Path(scratch) / "runs")), *cleanlab(arguments, folder)]
    for tool, (ranking, suspects, seconds) in found:
        is_wrong = np.array([path in wrong for path in ranking])
        suspicion = -np.arange(len(ranking))
        auroc, precision = roc_auc_score(is_wrong, suspicion), average_precision_score(is_wrong, suspicion)
        right = len(suspects & wrong)
        shares = f"{right / max(len(suspects), 1):.3f} | {right / len(wrong):.3f}"
        print(f"| {tool} | {auroc:.3f} | {precision:.3f} | {len(suspects)} | {shares} | {seconds:.0f} |")
