"""Evaluation: one file per suite."""
