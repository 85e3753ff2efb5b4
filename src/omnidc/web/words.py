"""Sentences of the library in the words of the page, which has no options of a command line."""

from __future__ import annotations

_DIVISOR = "\u201cStored numbers are divided by\u201d"
_CAMERA = "\u201cCamera\u201d"

# what the library says: what the page says; the first that fits counts, so longer ones come first
PAGE_WORDS = (
    (
        "move the points with --resize-sparse nearest (resize_sparse=True) if only the resolution differs",
        "tick \u201cThe depth has another resolution: move its points\u201d if only the resolution differs",
    ),
    ("give --depth-scale 1000 (depth_scale=1000)", f"type 1000 under {_DIVISOR}"),
    ("give --depth-scale if that is wrong", f"type another number under {_DIVISOR} if not"),
    ("give --depth-scale 1000", f"type 1000 under {_DIVISOR}"),
    ("give --depth-scale 1", f"type 1 under {_DIVISOR}"),
    ("(--depth-scale)", f"({_DIVISOR})"),
    ("No camera was given (--intrinsics or --camera).", f"No camera is known: type it under {_CAMERA}."),
    ("Give --ray-depth (ray_depth=True).", "Tick \u201cDistances are along the ray\u201d."),
    ("give intrinsics (fx fy cx cy)", f"type fx, fy, cx, cy under {_CAMERA}"),
    ("; --write-calib writes the corrected calibration", ""),
)


def page_words(sentence: str) -> str:
    """Return a sentence of the library as the page says it."""
    for library, page in PAGE_WORDS:
        sentence = sentence.replace(library, page)
    return sentence
