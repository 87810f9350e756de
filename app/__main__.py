"""The entry point of the program `grove-admission` and of `python -m app`."""

import sys

from app.certificates.groups import configure_openssl


def main() -> int:
    """Run the command that the program's first argument names. Return its exit code."""
    if sys.argv[1:2] == ["serve"]:
        configure_openssl()

    # imports ssl, which reads the configuration of OpenSSL
    from app import cli

    return cli.main()


if __name__ == "__main__":
    raise SystemExit(main())
