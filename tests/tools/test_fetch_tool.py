"""`fetch`: the text of a page, from a real server on loopback."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.tools.fetch import fetch_tool
from perdure.tools.pages import page_text
from tests.tools.calling import Bench

pytestmark = pytest.mark.anyio

Page = tuple[int, Mapping[str, str], bytes]
PAGE = b"""<!doctype html><html><head><title>Menu</title><style>p{}</style></head><body>
<script>steal()</script><h1>Today</h1><p>Soup &amp; <a href="/bread">bread</a></p></body></html>"""


@contextmanager
def serving(answer: Callable[[str, Mapping[str, str]], Page]) -> Generator[str]:
    """Serve answers on loopback; yield the host with its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = answer(self.path, dict(self.headers.items()))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def html(body: bytes, status: int = 200, **headers: str) -> Page:
    return status, {"content-type": "text/html; charset=utf-8", **headers}, body


async def fetched(bench: Bench, url: str, *hosts: str, timeout: float = 30) -> tuple[str, str]:
    """Fetch with these hosts allowed; return how the call ended and what the model reads."""
    bench.use([fetch_tool()])
    bench.hosts = hosts
    settled = await bench.call("fetch", url=url, timeout=timeout)
    return settled.outcome, settled.output


async def test_a_page_comes_as_markdown_without_scripts(bench: Bench) -> None:
    seen: list[Mapping[str, str]] = []

    def answer(path: str, headers: Mapping[str, str]) -> Page:
        seen.append(headers)
        return html(PAGE)

    with serving(answer) as host:
        outcome, text = await fetched(bench, f"http://{host}/menu?day=1#top", host)
    assert outcome == "completed"
    assert "# Menu\n\n# Today\n\nSoup & [bread](/bread)" in text
    assert "steal" not in text
    assert "p{}" not in text
    assert seen[0]["host"] == host


async def test_other_text_comes_as_it_is_in_its_own_charset(bench: Bench) -> None:
    page = (200, {"content-type": "text/plain; charset=latin-1"}, "Käse".encode("latin-1"))
    with serving(lambda path, headers: page) as host:
        assert "Käse" in (await fetched(bench, f"http://{host}/", host))[1]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "2130706433",
        "224.0.0.1",
    ],
)
async def test_a_private_address_is_refused(bench: Bench, address: str) -> None:
    outcome, text = await fetched(bench, f"http://{address}:9/")
    assert outcome == "failed"
    assert "is in a private network and is not fetched" in text


async def test_a_redirect_into_a_private_network_is_refused(bench: Bench) -> None:
    asked: list[str] = []

    def secret(path: str, headers: Mapping[str, str]) -> Page:
        asked.append(path)
        return html(b"secret")

    with serving(secret) as other:
        page = html(b"", 302, location=f"http://{other}/key")
        with serving(lambda path, headers: page) as host:
            outcome, text = await fetched(bench, f"http://{host}/", host)
    assert outcome == "failed"
    assert "private network" in text
    assert asked == []


async def test_redirects_are_followed_only_so_far(bench: Bench) -> None:
    def answer(path: str, headers: Mapping[str, str]) -> Page:
        if path == "/3":
            return html(b"<p>There.</p>")
        return html(b"", 301, location=f"{int(path[1:]) + 1}")

    with serving(answer) as host:
        assert "There." in (await fetched(bench, f"http://{host}/1", host))[1]
        outcome, text = await fetched(bench, f"http://{host}/4", host)
    assert outcome == "failed"
    assert "was redirected more than 5 times" in text


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (html(b"<h1>Gone</h1>", 404), "answered with status 404: # Gone"),
        ((200, {"content-type": "image/png"}, b"\x89PNG"), "is image/png (4 bytes), not text"),
        ((200, {"x": "y"}, b"\x00\x01"), "is no text (2 bytes), not text"),
    ],
)
async def test_what_is_no_page_is_said(bench: Bench, page: Page, words: str) -> None:
    with serving(lambda path, headers: page) as host:
        outcome, text = await fetched(bench, f"http://{host}/", host)
    assert outcome == "failed"
    assert words in text


async def test_a_page_that_unpacks_without_end_is_cut(bench: Bench) -> None:
    headers = {"content-type": "text/plain", "content-encoding": "gzip"}
    page = (200, headers, gzip.compress(b"a" * 64 * 1024 * 1024))
    with serving(lambda path, headers: page) as host:
        outcome, text = await fetched(bench, f"http://{host}/", host)
    assert outcome == "completed"
    assert "only its first 5 MiB were fetched" in text


async def test_a_server_that_does_not_answer_is_left_in_time(bench: Bench) -> None:
    silent = threading.Event()

    def answer(path: str, headers: Mapping[str, str]) -> Page:
        silent.wait(30)
        return html(b"late")

    with serving(answer) as host:
        try:
            outcome, text = await fetched(bench, f"http://{host}/", host, timeout=0.2)
        finally:
            silent.set()
    assert outcome == "failed"
    assert "did not answer within 0.2 s" in text


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///etc/passwd", "is no http or https address"),
        ("ftp://example.org/", "is no http or https address"),
        ("http://", "is no http or https address"),
        ("http://[::1", "is no address"),
        ("http://a:99999/", "is no address"),
        ("http://ada:secret@example.org/", "holds a name or a password"),
        ("http://no.such.host.invalid/", "there is no host no.such.host.invalid"),
        ("http://127.0.0.1:9/", "cannot be fetched"),
    ],
)
async def test_an_address_that_cannot_be_is_named(bench: Bench, url: str, words: str) -> None:
    outcome, text = await fetched(bench, url, "127.0.0.1")
    assert outcome == "failed"
    assert words in text
    assert "secret" not in text


def test_elements_nested_without_end_still_give_their_text() -> None:
    depth = 5000
    page = b"<div>" * depth + b"deep" + b"</div>" * depth
    assert page_text("text/html", "utf-8", page) == "deep"


@given(st.binary(max_size=200), st.sampled_from(["utf-8", "no-such", "utf-16", "idna"]))
def test_any_bytes_have_a_text(body: bytes, charset: str) -> None:
    assert isinstance(page_text("text/html", charset, body), str)
