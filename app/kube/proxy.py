"""Find the proxy for an API server in the environment, by the rules of kubectl.

kubectl reads the variables with golang.org/x/net/http/httpproxy. Python's own functions differ:
they also read settings of macOS and Windows, and know no networks, no ports and no `*.example`.
"""

from ipaddress import ip_address, ip_network
from urllib.request import getproxies_environment

from yarl import URL

from app.kube.api import Unavailable

_SCHEMES = ("http", "https")


def proxy_for(url: URL, configured: str | None) -> URL | None:
    """Return the proxy for requests to `url`, or None for none.

    `configured` is the proxy of the kubeconfig, which precedes the environment. Raise Unavailable
    if the proxy is not an HTTP proxy, or its URL is not valid.
    """
    variables = getproxies_environment()
    text = configured
    if (
        not text
        and url.host
        and not _is_spared(url.host.lower(), url.port, variables.get("no", ""))
    ):
        text = variables.get(url.scheme)
    if not text:
        return None

    try:
        proxy = URL(text if "://" in text else f"http://{text}")
    except ValueError:
        raise Unavailable("the proxy has an invalid URL", reason="Proxy") from None
    if proxy.scheme not in _SCHEMES:
        raise Unavailable(
            f"the proxy {shown(proxy)} is not supported, only proxies with http and https. Run"
            " kubectl proxy, and use a kubeconfig whose server is http://localhost:8001",
            reason="Proxy",
        )
    return proxy


def shown(proxy: URL) -> str:
    """Return the address of a proxy for messages, without its user and password."""
    return f"{proxy.scheme}://{proxy.host_subcomponent}:{proxy.port}"


def _is_spared(host: str, port: int | None, no_proxy: str) -> bool:
    """Return whether requests to `host` use no proxy.

    These are requests to this machine, and to the hosts, domains and networks in `no_proxy`.
    """
    if host == "localhost" or _is_within(host, "127.0.0.0/8") or _is_within(host, "::1"):
        return True
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    return any(_matches(host, port, entry) for entry in entries if entry)


def _matches(host: str, port: int | None, entry: str) -> bool:
    """Return whether an entry of NO_PROXY matches a host and port."""
    if entry == "*" or _is_within(host, entry):
        return True
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit() and (":" not in name or name.startswith("[")):
        if int(number) != port:
            return False
        entry = name.strip("[]")
    if _is_within(host, entry):
        return True
    domain = entry.removeprefix("*")
    if domain.startswith("."):
        return host.endswith(domain)
    return host == domain or host.endswith(f".{domain}")


def _is_within(host: str, network: str) -> bool:
    """Return whether `host` is an IP address in `network`.

    Return False if one of them is something else, such as a name.
    """
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
