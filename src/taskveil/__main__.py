"""`python -m taskveil` is the command line."""

from __future__ import annotations

from taskveil.cli import main

if __name__ == "__main__":
    main()
