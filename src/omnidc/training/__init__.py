"""Training: losses, configuration, schedule and the loop."""
