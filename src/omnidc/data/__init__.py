"""Datasets: one file per dataset, our own shards, mixing and augmentation."""
