"""Responses of models: engines, the draws of each response, and the models of an evaluation."""
