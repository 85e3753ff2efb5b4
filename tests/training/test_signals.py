from __future__ import annotations

import os
import signal

import pytest

from omnidc.training import signals
from omnidc.training.signals import StopSignal


def test_stop_signal_twice_at_once_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(signals.time, "monotonic", lambda: now[0])
    before = signal.getsignal(signal.SIGTERM)
    with StopSignal() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        now[0] += 1
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested
        now[0] += signals.SAME
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before
