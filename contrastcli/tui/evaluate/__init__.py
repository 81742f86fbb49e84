"""The screen Evaluate."""
