"""Helpers of the tests: worlds, fakes, and how results are compared."""
