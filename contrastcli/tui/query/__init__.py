"""The screen Query."""
