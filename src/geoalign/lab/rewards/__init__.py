"""Rewards: verified answers, reward models, functions and verifiers of the user's, and deliberate corruption."""
