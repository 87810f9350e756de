"""`python -m app` is `grove-admission`."""

from app.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
