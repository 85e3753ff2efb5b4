"""Complete a folder of photographs into a folder of results that can be resumed.

python examples/many_frames.py [OUTPUT]        run it twice: the second run finds everything done
"""

import sys
from pathlib import Path

import omnidc
from omnidc.frame import LazyFrames
from omnidc.pipeline import CompleteOptions, FolderSink, complete_source, make_frame

DATA = Path(omnidc.__file__).parent / "examples"


def main(output: str = "many_frames", network: str = "compact") -> None:
    # Each name has a function that reads its frame; frames that are done are never opened.
    source = LazyFrames(
        {
            f"room{k}": lambda k=k: make_frame(DATA / "room.jpg", DATA / "room_sparse.npz", name=f"room{k}")
            for k in (1, 2)
        }
    )
    completer, options = omnidc.load(network), CompleteOptions(keep_input="hard")
    sink = FolderSink(Path(output), model=completer.name, options=options, resume=True)
    print("to do:", ", ".join(sink.missing(source.names)) or "nothing")
    report = complete_source(source, sink, completer, options)
    print("failed:", report.failed or "none")


if __name__ == "__main__":
    main(*sys.argv[1:])
