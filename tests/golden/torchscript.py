#!/usr/bin/env python3
"""Small TorchScript modules, and what PyTorch computes with one of them.

Needs torch 2.13 and safetensors; run it as `.venv/bin/python tests/golden/torchscript.py` after installing
safetensors there. It writes the folder torchscript next to itself, for the tests of
core/engine/src/backbone/torchscript: `net.pt`, a scripted network with batch norm, a buffer and dropout; `tied.pt`,
which uses one parameter twice; modules with mistakes; and `wanted.safetensors`, the features of two images by `net.pt`
in evaluation mode and, in training mode after `torch.manual_seed(7)`, its features, the running mean afterwards and a
gradient.
"""

import zipfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2, bias=False), nn.BatchNorm2d(6))
        self.dropout = nn.Dropout(0.25)
        self.head = nn.Linear(6, 5)
        self.register_buffer("scale", torch.tensor([1.0, 0.5, 2.0, 1.0, 1.5]))

    def forward(self, x):
        x = torch.relu(self.stem(x)).mean((2, 3))
        return self.head(self.dropout(x)) * self.scale


class Fixed(nn.Module):
    """Its linear layer fits 32 pixels only; tracing it fixes nothing else."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3 * 32 * 32, 2)

    def forward(self, x):
        return self.head(x.flatten(1))


class OneBatch(nn.Module):
    def forward(self, x):
        return x.mean((2, 3)).reshape(1, -1)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x.mean((2, 3))))


class Overlapping(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.arange(6.0))
        self.b = nn.Parameter(self.a.detach()[:3])

    def forward(self, x):
        return x.mean((2, 3)) * self.b + self.a.sum()


class Pair(nn.Module):
    def forward(self, x):
        return x.mean((2, 3)), x


class Constant(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        with torch.no_grad():
            return self.head(x.mean((2, 3)))


def write(module, path):
    """Without the debug files, which are half of it and name the folders of this machine."""
    module.save(str(path))
    with zipfile.ZipFile(path) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist() if not name.endswith(".debug_pkl")]
    with zipfile.ZipFile(path, "w") as archive:
        for name, contents in entries:
            archive.writestr(zipfile.ZipInfo(name), contents)


def main():
    folder = Path(__file__).with_name("torchscript")
    folder.mkdir(exist_ok=True)
    torch.manual_seed(0)
    net = Net()
    net(torch.randn(8, 3, 32, 32))  # running statistics that are not the initial ones
    save = lambda module, name: write(torch.jit.script(module), folder / name)
    save(net, "net.pt")
    save(nn.Sequential(nn.Conv2d(3, 4, 3)), "maps.pt")
    write(torch.jit.trace(Fixed(), torch.zeros(2, 3, 32, 32)), folder / "fixed.pt")
    save(OneBatch(), "one_batch.pt")
    save(Tied(), "tied.pt")
    save(Overlapping(), "overlapping.pt")
    save(Pair(), "pair.pt")
    save(Constant(), "constant.pt")
    save(Detached(), "detached.pt")
    save(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)).half(), "half.pt")
    torch.save(net.state_dict(), folder / "state_dict.pth")

    images = torch.linspace(-1, 1, 2 * 3 * 32 * 32).reshape(2, 3, 32, 32).sin() + torch.eye(32)
    wanted = {"eval": net.eval()(images).detach(), "images": images.contiguous()}
    torch.manual_seed(7)
    features = net.train()(images)
    (features * torch.arange(5.0)).sum().backward()
    wanted["train"] = features.detach()
    wanted["running_mean"] = net.stem[1].running_mean.clone()
    wanted["gradient"] = net.stem[0].weight.grad.clone()
    save_file(wanted, folder / "wanted.safetensors", {"made with": f"torch {torch.__version__}"})


if __name__ == "__main__":
    main()
