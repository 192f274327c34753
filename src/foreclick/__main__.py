"""`python -m foreclick`: the command line."""

import sys

from foreclick.cli import main

sys.exit(main())
