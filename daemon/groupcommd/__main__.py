"""`python -m groupcommd`."""

import sys

from groupcommd.cli import main

sys.exit(main())
