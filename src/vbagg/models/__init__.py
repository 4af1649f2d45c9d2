"""Estimators: thin classes with one interface over bags."""
