"""`python -m harness`: the command line."""

from harness.cli import main

if __name__ == "__main__":  # worker processes import this file, too
    main(prog_name="python -m harness")
