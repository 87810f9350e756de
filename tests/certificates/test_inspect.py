"""Certificates of others are read, also those that are not quite as they should be."""

from app.certificates.inspect import load_certificates

SERIAL_0 = b"""-----BEGIN CERTIFICATE-----
MIIBXjCCAQSgAwIBAgIBADAKBggqhkjOPQQDAjANMQswCQYDVQQDDAJjYTAgFw0y
NjExMjIyMDM0NDRaGA8yMTI2MTAyOTIwMzQ0NFowDTELMAkGA1UEAwwCY2EwWTAT
BgcqhkjOPQIBBggqhkjOPQMBBwNCAAR+ZB84+4VDPBtg7vs9JV+r55uh4AwfMaED
BmPt0V6Fq0L6ibYPe13PmXF1ITBzYSN1K75VPPOBXfXfv8igc2bWo1MwUTAdBgNV
HQ4EFgQUJq+AAoqbsdetEAQwePgXRJyNi1owHwYDVR0jBBgwFoAUJq+AAoqbsdet
EAQwePgXRJyNi1owDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiEA
zz1YFwr+FwO551UxBmp8+6WnVEunuUOT6UFC1qiJhW0CIC6yVdms8ghFsEAbGXjy
y9GDTZUyDOnDPJawYQ/T9Dk5
-----END CERTIFICATE-----
"""
"""A CA as the certificate controller of Grove's operator makes it; warnings fail a test."""


def test_a_ca_with_the_serial_number_0_is_read_without_a_warning() -> None:
    (certificate,) = load_certificates(SERIAL_0)
    assert certificate.subject.rfc4514_string() == "CN=ca"
