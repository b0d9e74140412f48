"""Images to corrupt: noise with the spectrum of natural images."""

from __future__ import annotations

import numpy as np


def make_images(n=6, channels=3, height=32, width=32, seed=0):
    """float32 images (n, channels, height, width), values from 0.1 to 0.9, amplitudes proportional to 1/frequency."""
    noise = np.random.default_rng(seed).normal(size=(n, channels, height, width))
    frequencies = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width))
    amplitudes = 1 / np.maximum(frequencies, 1 / max(height, width))
    images = np.fft.ifft2(np.fft.fft2(noise) * amplitudes).real
    deviation = max(images.std(), 1e-9)
    return np.clip(0.5 + 0.15 * images / deviation, 0.1, 0.9).astype(np.float32)
