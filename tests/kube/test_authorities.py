"""Which certificates are trusted."""

import os
import ssl
import subprocess
import sys
from pathlib import Path

import trustme

from app.kube.authorities import trusting


def test_a_certificate_needs_no_more_extensions_than_kubectl_asks_for() -> None:
    context = trusting()
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_the_authorities_of_the_system_are_those_that_the_environment_names(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(file)
    code = "from app.kube import authorities; print(len(authorities.trusting().get_ca_certs()))"
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SSL_CERT_FILE": str(file), "SSL_CERT_DIR": str(tmp_path / "none")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert shown.stdout == "1\n"
