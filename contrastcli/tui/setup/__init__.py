"""The screen Setup."""
