# SPDX-License-Identifier: BSD-3-Clause
"""Digits for tests: seven segments, moved about, in noise."""
import numpy

SIDE = 12
SEGMENTS = {"a": (0, 1, 1, 5), "b": (1, 4, 5, 6), "c": (5, 8, 5, 6), "d": (8, 9, 1, 5), "e": (5, 8, 0, 1), "f": (1, 4, 0, 1), "g": (4, 5, 1, 5)}
LIT = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]


def draw(count, seed=1):
    """Images (count, SIDE * SIDE) of float32, and what they show."""
    rng = numpy.random.default_rng(seed)
    shown = rng.integers(0, 10, count)
    images = rng.normal(0, 0.15, (count, SIDE, SIDE)).astype("float32")
    for image, digit, (down, right) in zip(images, shown, rng.integers(0, 3, (count, 2))):
        for segment in LIT[digit]:
            top, bottom, left, end = SEGMENTS[segment]
            image[top + down:bottom + down, left + right + 1:end + right + 1] += 1
    return images.reshape(count, -1), shown
