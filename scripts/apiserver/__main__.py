"""Run the command: `.venv/bin/python -m scripts.apiserver --help`, in the folder of the checkout."""

import sys

from scripts.apiserver.command import main

if __name__ == "__main__":
    sys.exit(main())
