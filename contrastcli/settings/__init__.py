"""What can be set: settings, objectives, presets and what the papers report."""
