"""`python -m dovetail`: the same as the `dovetail` command."""

from __future__ import annotations

import sys

from dovetail.cli import main

if __name__ == "__main__":
    sys.exit(main())
