"""Stands in for vLLM, which needs a GPU: Trinity-RFT's pipeline imports a few of its names and uses none."""
