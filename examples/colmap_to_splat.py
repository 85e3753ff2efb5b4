"""A COLMAP model to a folder for Gaussian splatting, with dense depth for every photograph.

python examples/colmap_to_splat.py MODEL IMAGES OUTPUT
"""

import sys
from pathlib import Path

import omnidc
from omnidc.interop.sinks import export_sink
from omnidc.pipeline import FolderSink, complete_source
from omnidc.sensors import open_model


def main(model: str, images: str, output: str, network: str = "compact") -> None:
    opened = open_model(Path(model), Path(images))
    completer = omnidc.load(network)
    results = FolderSink(Path(output) / "depth", model=completer.name, keep_images=True)
    sink = export_sink(results, "inria", Path(output) / "inria", opened)
    complete_source(opened.source(), sink, completer)


if __name__ == "__main__":
    main(*sys.argv[1:])
