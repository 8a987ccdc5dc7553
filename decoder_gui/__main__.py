"""``python -m decoder_gui`` is ``decoder-gui``."""

import sys

from decoder_gui.cli import main

if __name__ == "__main__":
    sys.exit(main())
