"""Trust certificates of API servers and webhooks in the same way as kubectl."""

import ssl


def trusting(cadata: str | None = None, cafile: str | None = None) -> ssl.SSLContext:
    """Return a context that trusts the given CAs (PEM), or the system's CAs if none are given.

    Since Python 3.13, the default is strict about extensions, such as the identifier of the
    issuer's key, that certificates of many clusters lack. kubectl and API servers don't require
    them.
    """
    context = ssl.create_default_context(cadata=cadata, cafile=cafile)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
