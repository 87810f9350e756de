"""Which certificates are trusted."""

import ssl

from app.kube.authorities import trusting


def test_a_certificate_needs_no_more_extensions_than_kubectl_asks_for() -> None:
    context = trusting()
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
