"""The screen Live."""
