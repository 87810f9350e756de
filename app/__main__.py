"""The program `grove-admission`, also as `python -m app`."""

import sys

from app.certificates.groups import configure_openssl


def main() -> int:
    """Run the command that the arguments name, and return its exit code."""
    if sys.argv[1:2] == ["serve"]:
        configure_openssl()

    # imports ssl, which has to be configured before
    from app import cli

    return cli.main()


if __name__ == "__main__":
    raise SystemExit(main())
