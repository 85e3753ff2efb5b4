"""After-treatment of the first compact network, in NumPy; goes with its weights."""
