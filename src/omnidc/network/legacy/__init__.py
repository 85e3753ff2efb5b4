"""The compact network of 0.1 with its own parameter names: what the shipped weights need until better ones replace them."""
