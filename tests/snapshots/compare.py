"""Pictures of widgets, and how far two of them may be apart.

Fonts are bundled, ``fonts.conf`` says how they are smoothed, and Qt's own rasteriser draws them, so
one version of Qt gives the same picture on every Linux. Another version may smooth edges a little
differently: that is what the tolerance is for. It is stated twice, because a changed digit is lost
in the mean of a whole picture:

* over the whole picture, the mean absolute difference is at most ``MEAN`` levels of 255;
* in no tile of ``TILE`` x ``TILE`` pixels are more than ``CHANGED`` pixels off by more than
  ``LEVELS`` levels in any channel.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QImage, QRegion, qRgb
from PySide6.QtWidgets import QWidget

PICTURES = Path(__file__).parent / "pictures"
UPDATE = "DECODER_GUI_UPDATE_SNAPSHOTS"

MEAN = 2.0
LEVELS = 48
TILE = 16
CHANGED = 4

EXACT = 100  # colours of a committed picture that are kept as they are

Pixels = NDArray[np.uint8]  # (height, width, 3), red, green, blue


@dataclass(frozen=True)
class Difference:
    """How far two pictures of one size are apart.

    Attributes:
        mean: mean absolute difference in levels of 255.
        changed: most pixels of a tile that are off by more than ``LEVELS``.
        at: (x, y) of the upper left corner of that tile, in pixels.
    """

    mean: float
    changed: int
    at: tuple[int, int]

    @property
    def accepted(self) -> bool:
        return self.mean <= MEAN and self.changed <= CHANGED

    def __str__(self) -> str:
        return (
            f"mean difference {self.mean:.3f} of 255 (at most {MEAN}); {self.changed} pixels of "
            f"the tile at {self.at} off by more than {LEVELS} (at most {CHANGED})"
        )


def picture(widget: QWidget, ground: QColor) -> QImage:
    """A widget as it is drawn, on a ground of one colour; in device-independent pixels."""
    image = QImage(widget.size(), QImage.Format.Format_RGB888)
    image.fill(ground)
    widget.render(image, QPoint(), QRegion())
    return image


def pixels(image: QImage) -> Pixels:
    """The levels of a picture."""
    plain = image.convertToFormat(QImage.Format.Format_RGB888)
    rows = np.frombuffer(plain.constBits(), np.uint8).reshape(plain.height(), -1)
    return rows[:, : 3 * plain.width()].reshape(plain.height(), plain.width(), 3).copy()


def difference(one: Pixels, other: Pixels) -> Difference:
    """How far two pictures of one size are apart; tiles overlap by half."""
    apart = np.abs(one.astype(np.int16) - other.astype(np.int16))
    off = (apart.max(axis=2) > LEVELS).astype(np.int64)
    # Sums over tiles from running sums; tiles that begin every half tile.
    height, width = off.shape
    total = np.zeros((height + 1, width + 1), np.int64)
    total[1:, 1:] = off.cumsum(axis=0).cumsum(axis=1)
    tops = range(0, max(1, height - TILE // 2), TILE // 2)
    lefts = range(0, max(1, width - TILE // 2), TILE // 2)
    worst, at = -1, (0, 0)
    for top in tops:
        bottom = min(height, top + TILE)
        for left in lefts:
            right = min(width, left + TILE)
            count = total[bottom, right] - total[top, right] - total[bottom, left]
            count += total[top, left]
            if count > worst:
                worst, at = int(count), (left, top)
    return Difference(float(apart.mean()), worst, at)


def difference_picture(one: Pixels, other: Pixels) -> QImage:
    """What differs, in shades of white on black; differences count four times."""
    apart = np.abs(one.astype(np.int16) - other.astype(np.int16)).max(axis=2)
    levels = np.minimum(255, 4 * apart).astype(np.uint8)
    height, width = levels.shape
    return QImage(
        np.ascontiguousarray(levels).data, width, height, width, QImage.Format.Format_Grayscale8
    ).copy()


def with_few_colours(image: QImage) -> QImage:
    """The same picture in 256 colours, none of them more than a few levels off: half the bytes.

    The most frequent colours stay exactly as they are; the others are chosen one by one, each the
    one furthest from those chosen before it.
    """
    levels = pixels(image)
    height, width = levels.shape[:2]
    flat = levels.reshape(-1, 3).astype(np.int64)
    colours, place, count = np.unique(flat, axis=0, return_inverse=True, return_counts=True)
    chosen = np.argsort(-count, kind="stable")[:EXACT].tolist()
    apart = np.abs(colours[:, None] - colours[chosen]).max(axis=2).min(axis=1)
    while len(chosen) < min(256, len(colours)):
        chosen.append(int(apart.argmax()))
        apart = np.minimum(apart, np.abs(colours - colours[chosen[-1]]).max(axis=1))
    nearest = np.abs(colours[:, None] - colours[chosen]).max(axis=2).argmin(axis=1)
    indices = np.zeros((height, -(-width // 4) * 4), np.uint8)
    indices[:, :width] = nearest[place.reshape(height, width)]
    few = QImage(indices.data, width, height, indices.shape[1], QImage.Format.Format_Indexed8)
    few.setColorTable([qRgb(*colour) for colour in colours[chosen].tolist()])
    return few.copy()


def check_picture(actual: QImage, name: str, folder: Path, pictures: Path = PICTURES) -> None:
    """Hold a picture against the committed one, or rewrite that one if the environment says so.

    Args:
        actual: what was drawn now.
        name: of the committed picture, without its ending.
        folder: where the new picture and the difference go if they are too far apart.
        pictures: where the committed ones are.

    Raises:
        AssertionError: there is none, its size is another one, or the two are too far apart.
    """
    path = pictures / f"{name}.png"
    if os.environ.get(UPDATE) == "1":
        pictures.mkdir(exist_ok=True)
        assert with_few_colours(actual).save(str(path)), f"cannot write {path}"
        return
    saved = folder / f"{name}-actual.png"
    how = f"If the change is meant, run the tests once with {UPDATE}=1 and look at the result."
    expected = QImage(str(path))
    if expected.isNull():
        actual.save(str(saved))
        raise AssertionError(f"there is no picture {path.name}; {saved} is what was drawn. {how}")
    if expected.size() != actual.size():
        actual.save(str(saved))
        raise AssertionError(
            f"{name} is {actual.width()} x {actual.height()} and was {expected.width()} x "
            f"{expected.height()}; {saved} is what was drawn. {how}"
        )
    found = difference(pixels(actual), pixels(expected))
    if not found.accepted:
        actual.save(str(saved))
        where = folder / f"{name}-difference.png"
        difference_picture(pixels(actual), pixels(expected)).save(str(where))
        raise AssertionError(
            f"{name}: {found}. Drawn now: {saved}; difference: {where}; committed: {path}. {how}"
        )
