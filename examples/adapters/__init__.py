"""Other people's depth completion and monocular depth networks as methods of `omnidc eval`; see README.md."""
