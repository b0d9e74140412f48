"""Corruptions of images that keep the label, in the style of CIFAR-10-C: built-in ones, and those of plugins.

A corruption takes images (N, C, H, W) with values from 0 to 1, before standardization, and a severity from 1 to 5.
All fifteen of CIFAR-10-C are built in, with its constants of each severity. The algorithms are independent
implementations: results have the kind and strength of the published data set, not its pixels.

Source: Hendrycks & Dietterich 2019, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations;
constants for images of 32×32 pixels: `make_cifar_c.py` of the authors' repository.
"""

from bln_search.data.corruptions.corrupted_images import corrupt_images
from bln_search.data.corruptions.function import CorruptionFunction, get_corruption_function

__all__ = ["CorruptionFunction", "corrupt_images", "get_corruption_function"]
