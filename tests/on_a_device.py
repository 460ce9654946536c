"""Run by torchrun: `several_trainings` on torch's own processor as if it were a device."""

import runpy

import torch

from graphconv.commands import torchrun

if __name__ == "__main__":
    torchrun.choose_device = lambda name, n, process: torch.device("cpu")
    runpy.run_module("tests.several_trainings", run_name="__main__")
