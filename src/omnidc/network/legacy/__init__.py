"""The compact network of 0.1 with its parameter names, until better weights replace the shipped ones."""
