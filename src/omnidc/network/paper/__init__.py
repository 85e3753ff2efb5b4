"""The network of the OMNI-DC paper, its released checkpoints, and the two baselines it was built from."""
