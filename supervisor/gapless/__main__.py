"""`python -m gapless` is the command `gapless`."""

import sys

from gapless.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
