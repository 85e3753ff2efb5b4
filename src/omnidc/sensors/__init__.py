"""Real sensors: each reader turns the files that people have into `Frame`s, and says what it did with them."""
