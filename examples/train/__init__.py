"""Trains small and large transformers whose attention is one line of the config.

    python -m examples.train.train examples/train/configs/tiny.json model.attention=softmax

docs/train.md is the manual. Needs torch, numpy and lssar.
"""
