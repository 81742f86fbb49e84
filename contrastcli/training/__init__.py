"""The training loop: plan → steps → events and checkpoints."""
