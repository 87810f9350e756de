"""Words for people."""

from app.explain.reasons.reason import ago, amount, are, clock, counted, listed, plain


def test_words() -> None:
    assert (counted(1, "node"), counted(2_000, "node"), counted(2, "queue entry")) == (
        "1 node",
        "2,000 nodes",
        "2 queue entries",
    )
    assert (listed([]), listed(["a"]), listed("ab"), listed("abcdef")) == (
        "",
        "a",
        "a and b",
        "a, b, c, d and 2 more",
    )
    assert (plain(8000), plain(1_500), plain(1_000_000)) == ("8", "1.5", "1,000")
    assert [
        amount("memory", 512_000),
        amount("memory", 900 * 2**30 * 1000),
        amount("memory", 3000 * 2**40 * 1000),
        amount("hugepages-2Mi", 2**30 * 1000),
        amount("memory", 10**12),
        amount("memory", 10**12, down=True),
    ] == [
        "512 B",
        "900 GiB",
        "3,000 TiB",
        "1 GiB",
        "953.7 MiB",
        "953.6 MiB",
    ]
    assert [
        amount("nvidia.com/gpu", 1000),
        amount("cpu", 2500),
        amount("pods", 1000),
        amount("vendor/x", 2000),
        amount("nvidia.com/mig-3g.20gb", 3000),
    ] == [
        "1 GPU",
        "2.5 CPUs",
        "1 pod",
        "2 vendor/x",
        "3 mig-3g.20gb",
    ]
    assert [ago(5), ago(119), ago(840), ago(7200), ago(200_000)] == [
        "5 seconds",
        "119 seconds",
        "14 minutes",
        "2 hours",
        "2 days",
    ]
    assert clock(15 * 3600 + 42 * 60) == "15:42 UTC"


def test_a_list_of_one_is_singular() -> None:
    assert are(["rack"], "level") == "level is"
    assert are(["zone", "rack"], "level") == are([], "level") == "levels are"
