"""Everywhere else that models run: ONNX, the hub, live sources, clusters. Nothing here imports torch by itself."""
