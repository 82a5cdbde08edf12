"""Runs the command line as `python3 -m vaecf`."""

import sys

from .cli import main

sys.exit(main())
