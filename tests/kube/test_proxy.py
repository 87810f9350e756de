"""The proxy for an API server, as kubectl chooses it."""

import pytest
from yarl import URL

from app.kube.api import Unavailable
from app.kube.proxy import proxy_for, shown


@pytest.fixture(autouse=True)
def proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)


@pytest.mark.parametrize(
    ("no_proxy", "url", "is_spared"),
    [
        ("", "https://10.96.0.1", False),
        ("10.96.0.0/12", "https://10.96.0.1", True),
        ("10.96.0.1", "https://10.96.0.1", True),
        ("10.96.0.1:443", "https://10.96.0.1", True),
        ("10.96.0.1:6443", "https://10.96.0.1", False),
        ("10.0.0.0/16, .svc", "https://10.96.0.1", False),
        ("fd00::/8", "https://[fd00::1]", True),
        ("[fd00::1]:443", "https://[fd00::1]", True),
        ("fd00::1", "https://[fd00::1]", True),
        ("*", "https://k8s.example", True),
        ("*.corp.example", "https://k8s.corp.example:6443", True),
        ("*.corp.example", "https://corp.example", False),
        (".corp.example", "https://k8s.corp.example", True),
        (".corp.example", "https://corp.example", False),
        ("corp.example", "https://corp.example", True),
        ("corp.example", "https://k8s.corp.example", True),
        ("corp.example", "https://othercorp.example", False),
        ("k8s.corp.example:6443", "https://k8s.corp.example:6443", True),
        ("k8s.corp.example:6443", "https://k8s.corp.example", False),
        ("K8S.corp.example", "https://k8s.CORP.example", True),
        (",,", "https://k8s.example", False),
        ("", "https://localhost:6443", True),
        ("", "https://127.0.0.2:6443", True),
        ("", "https://[::1]:6443", True),
        ("", "http://k8s.example", True),  # there is no HTTP_PROXY
    ],
)
def test_which_hosts_use_no_proxy(
    no_proxy: str, url: str, is_spared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", no_proxy)
    found = proxy_for(URL(url), None)
    assert found == (None if is_spared else URL("http://proxy:3128"))


@pytest.mark.parametrize(
    ("variable", "found"),
    [
        ("proxy:3128", "http://proxy:3128"),
        ("http://proxy:3128", "http://proxy:3128"),
        ("https://bob:secret@proxy", "https://bob:secret@proxy"),
    ],
)
def test_a_proxy_without_a_scheme_is_an_http_proxy(
    variable: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", variable)
    assert proxy_for(URL("https://k8s.example"), None) == URL(found)


@pytest.mark.parametrize(
    ("proxy", "text"),
    [
        ("http://proxy:3128/x?y", "http://proxy:3128"),
        ("https://bob:secret@proxy", "https://proxy:443"),
        ("http://[fd00::1]:1", "http://[fd00::1]:1"),
    ],
)
def test_a_message_has_no_password_of_a_proxy(proxy: str, text: str) -> None:
    assert shown(URL(proxy)) == text


@pytest.mark.parametrize("variable", ["http://proxy:port", "http://[::1", "proxy:port"])
def test_a_url_that_is_not_valid_is_an_error(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", variable)
    with pytest.raises(Unavailable, match="invalid URL"):
        proxy_for(URL("https://k8s.example"), None)


def test_the_proxy_of_the_kubeconfig_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    assert proxy_for(URL("https://k8s.example"), "http://jump:1") == URL("http://jump:1")


@pytest.mark.parametrize(
    "configured", ["socks5://bob:secret@jump:1080", "socks5h://jump", "ftp://jump"]
)
def test_another_proxy_is_an_error_with_a_way_out(configured: str) -> None:
    with pytest.raises(Unavailable, match="is not supported") as raised:
        proxy_for(URL("https://k8s.example"), configured)
    assert "kubectl proxy" in raised.value.message
    assert "secret" not in raised.value.message
