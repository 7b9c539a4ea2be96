"""`python -m ckwatch`."""

import sys

from ckwatch.cli import main

sys.exit(main())
