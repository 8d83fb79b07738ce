#!/usr/bin/env python3
"""The requests that gunicorn's tests have, good and bad ones, to a role's HTTP.

  pip download --no-deps --no-binary :all: gunicorn==23.0.0 && tar xzf gunicorn-23.0.0.tar.gz
  ndtrain tuner serve --state t --listen unix:link --http 127.0.0.1:8420 --http-rate 0 &
  bench/peers/http_suite.py 127.0.0.1:8420 gunicorn-23.0.0/tests/requests

Each file is sent at once, and byte by byte. Of a bad one nothing may be answered as if it were
understood, nor the request for /healthz that is sent behind it. Of a good one each request must be
answered so, whatever the answer. Prints what does otherwise, and why where that is on purpose."""
import pathlib
import re
import socket
import sys

REFUSED = {400, 413, 414, 417, 431, 501, 505}
# Where the standard says otherwise than gunicorn, or its bounds are its own.
ON_PURPOSE = {
    "invalid/003c": "'-' is a letter of methods (RFC 9110, 5.6.2)",
    "invalid/007": "a line of 8,190 bytes is gunicorn's bound",
    "invalid/008": "a line of 8,190 bytes is gunicorn's bound",
    "invalid/009": "100 fields are gunicorn's bound",
    "invalid/016": "a target that is too long is framed all the same, and the next request is answered",
    "invalid/017": "a line of 8,190 bytes is gunicorn's bound",
    "valid/009": "no length beside Transfer-Encoding (RFC 9112, 6.1)",
    "valid/025": "no transfer coding but chunked is understood (RFC 9112, 6.1)",
    "valid/025_line": "no transfer coding but chunked is understood (RFC 9112, 6.1)",
    "valid/027": "a target is of ASCII (RFC 9112, 3.2)",
    "valid/029": "identity is no transfer coding any more (RFC 9112, 7)",
    "valid/030": "identity is no transfer coding any more (RFC 9112, 7)",
}
# Good to gunicorn because it was told to take them: --proxy-protocol, a header map, obs-fold and so on.
ASKED_FOR = re.compile(r"cfg\.set|class_allow")


REQUEST_LINE = re.compile(rb"^([!-~]* ?[!-~]* HTTP/\d\.\d\r\n)", re.M)


def bytes_of(path, host):
    """With a Host that the server answers to, so that no request is refused for that."""
    data = path.read_bytes().replace(b"\n", b"").replace(b"\\r\\n", b"\r\n")
    data = data.replace(b"\\0", b"\0").replace(b"\\n", b"\n").replace(b"\\t", b"\t")
    data = re.sub(rb"(?im)^host: .*?\r\n", b"", data)
    data = REQUEST_LINE.sub(rb"\1Host: " + host.encode() + rb"\r\n", data)
    # A body is read where one is taken, and of a path that is not there the connection ends.
    return re.sub(rb"(?m)^POST [!-~]+ ", b"POST /jobs/plan ", data)


def statuses(host, port, data, by_byte):
    """Of all answers, until the server closes or is silent for a second."""
    said = b""
    with socket.create_connection((host, port)) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.settimeout(1)
        try:
            for part in ([data[i:i + 1] for i in range(len(data))] if by_byte else [data]):
                s.sendall(part)
            s.shutdown(socket.SHUT_WR)
            while more := s.recv(65536):
                said += more
        except OSError:
            pass
    return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d{3}) [^\r\n]*\r\n", said) if code != b"100"]


def requests_in(expected):
    """How many a good file has."""
    m = re.search(r"^request = \[(.*?)\]", expected, re.S | re.M)
    return len([r for r in m.group(1).split(",") if r.strip()]) if m else 1


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    root = pathlib.Path(sys.argv[2])
    behind = f"GET /healthz HTTP/1.1\r\nHost: {sys.argv[1]}\r\n\r\n".encode()
    right = wrong = purpose = skipped = 0
    for kind in ("invalid", "valid"):
        for file in sorted((root / kind).glob("*.http")):
            name = f"{kind}/{file.stem}"
            expected = file.with_suffix(".py").read_text()
            if ASKED_FOR.search(expected):
                skipped += 1
                print(f"{name}: not sent, it is for a server that was set up so")
                continue
            for by_byte in (False, True):
                data = bytes_of(file, sys.argv[1])
                why = ON_PURPOSE.get(name)
                got = statuses(host, int(port), data + (behind if kind == "invalid" else b""), by_byte)
                if kind == "invalid":
                    ok = all(code in REFUSED for code in got) and len(got) <= 1
                else:
                    ok = len(got) == requests_in(expected) and not any(code in REFUSED - {400} for code in got)
                    ok = ok and (400 not in got or (b"POST" in data and not why))  # no body is a job
                right, purpose, wrong = right + ok, purpose + bool(not ok and why), wrong + (not ok and not why)
                if not ok:
                    print(f"{name}{' by bytes' if by_byte else ''}: answered {got}{': ' + why if why else ''}")
    print(f"{right} as they should be, {purpose} otherwise on purpose, {wrong} wrong; {skipped} files not sent")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
