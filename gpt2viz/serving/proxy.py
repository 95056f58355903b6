"""The proxy in front of the workers: Caddy, with a configuration that is written here.

A page is one websocket and many requests (pictures, files, components), which only its own worker
can answer. So Caddy gives each browser a cookie with its worker: a whole class may come from one
address, which tells nobody apart. A worker that refuses a connection is left out for a moment, and
its visitors get another's cookie. Requests aren't logged: their addresses hold what people type.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from gpt2viz.errors import ServeError

#: What a browser is told by: which worker is its own.
COOKIE = "gpt2viz_worker"

_CONFIGURATION = """\
# Written by `gpt2viz serve` at each start.
{{
	admin off
	auto_https off
	# A request's address and where it came from hold the sentence that somebody typed.
	log {{
		output stderr
		level WARN
		format filter {{
			wrap console
			fields {{
				request delete
			}}
		}}
	}}
}}

http://:{port} {{
	bind {host}
	@desk path /healthz /readyz
	handle @desk {{
		reverse_proxy 127.0.0.1:{desk}
	}}
	# For their owner, on a port of its own.
	@metrics path */_stcore/metrics
	handle @metrics {{
		respond 404
	}}
	handle {{
		reverse_proxy {workers} {{
			lb_policy cookie {cookie} {secret}
			lb_try_duration 10s
			lb_try_interval 100ms
			fail_duration 2s
		}}
	}}
}}
"""


def configuration(host: str, port: int, workers: Sequence[int], desk: int, secret: str) -> str:
    """Caddy's configuration: what comes to ``host`` and ``port`` goes to one of the ``workers``.

    ``workers`` and ``desk`` are ports of this machine. Cookies are signed with ``secret``.
    """
    return _CONFIGURATION.format(
        host=host,
        port=port,
        workers=" ".join(f"127.0.0.1:{worker}" for worker in workers),
        desk=desk,
        cookie=COOKIE,
        secret=secret,
    )


def find() -> str:
    """The path of Caddy on this machine. Raises ``ServeError`` that says how to get it."""
    found = shutil.which("caddy")
    if found is None:
        raise ServeError(
            "gpt2viz serve needs the proxy Caddy: `apt-get install caddy` on Debian and Ubuntu, "
            "https://caddyserver.com/docs/install elsewhere"
        )
    return found


def become(program: str, file: Path) -> None:
    """Go on as Caddy with that configuration; what it keeps stays in the file's folder."""
    home = {name: str(file.parent) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    command = [program, "run", "--config", str(file), "--adapter", "caddyfile"]
    os.execve(program, command, os.environ | home)  # noqa: S606 (no shell is wanted)
