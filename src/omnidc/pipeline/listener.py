"""`RunListener`: how the command line follows a run. Imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnidc.frame import Frame
    from omnidc.pipeline.completion import Completion


class RunListener:
    """Follows a run, to show its progress; does nothing unless a method is overridden."""

    def begin(self, total: int, todo: int) -> None:
        pass

    def loaded(self, frame: Frame) -> None:
        pass

    def completed(self, frame: Frame, completion: Completion) -> None:
        pass

    def skipped(self, name: str) -> None:
        pass

    def failed(self, name: str, reason: str) -> None:
        pass

    def end(self) -> None:
        """End: called when no frame is left, before the sink writes what needs all of them."""
