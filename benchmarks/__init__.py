"""What things cost: `pytest --benchmark-only`. A package, since its modules have names that occur in `tests/` too."""
