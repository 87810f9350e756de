"""Run the sandbox: `.venv/bin/python -m scripts.apiserver --help`, in the root of a checkout."""

import sys

from scripts.apiserver.command import main

if __name__ == "__main__":
    sys.exit(main())
