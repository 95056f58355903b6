"""The proxy in front of the workers: Caddy, configured here.

A page is one websocket and many requests (pictures, files, components), which only its own worker
can answer. So Caddy gives each browser a cookie with its worker, as a whole class may share one
address. A worker that refuses a connection is skipped for a moment, one that doesn't answer until
it does again, and their visitors get another's cookie. Requests aren't logged: their addresses
contain what visitors type.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from gpt2viz.app.pages import ADDED, PAGES
from gpt2viz.errors import ServeError

#: The cookie that names a browser's worker.
COOKIE = "gpt2viz_worker"
#: The most connections to one worker; further ones wait.
CONNECTIONS = 800
#: A worker's paths besides pages: Streamlit's own scripts, pictures, files and messages.
_PARTS = ("/static/*", "/media/*", "/component/*", "/app/static/*", "/_stcore/*")
_FILES = ("/favicon.png", "/manifest.json")

#: The content security policy: everything is ours. Streamlit draws its tables with scripts
#: that it compiles on the fly, and our components come within its messages.
POLICY = {
    "default-src": "'self'",
    "script-src": "'self' 'unsafe-inline' blob:",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "font-src": "'self' data:",
    "connect-src": "'self'",
    "worker-src": "'self' blob:",
    "object-src": "'none'",
    "base-uri": "'self'",
    "form-action": "'self'",
}
#: Browser features that no page needs.
_UNUSED = ("camera", "microphone", "geolocation", "payment", "usb", "serial", "midi")

_CONFIGURATION = """\
# Written by `gpt2viz serve` at each start.
{{
	admin off
	auto_https off
	servers {{
		timeouts {{
			read_header 10s
			read_body 1m
			idle 2m
		}}
		max_header_size 64KB
	}}
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
	header {{
		defer
		-Server
		X-Content-Type-Options nosniff
		Referrer-Policy same-origin
		Permissions-Policy "{unused}"
		Content-Security-Policy "{policy}"
	}}
	@tls header X-Forwarded-Proto https
	@plain not header X-Forwarded-Proto https
	header @tls {{
		defer
		Set-Cookie "^({cookie}=[^;]*).*" "$1; Path=/; HttpOnly; {flags}"
		Set-Cookie "^(_streamlit_xsrf=[^;]*).*" "$1; Path=/; {flags}"
	}}
	header @plain {{
		defer
		Set-Cookie "^({cookie}=[^;]*).*" "$1; Path=/; HttpOnly; SameSite=Lax"
	}}
	request_body {{
		max_size 4MB
	}}
	@health path /healthz /readyz
	handle @health {{
		reverse_proxy {health}
	}}
	# For their owner, on a port of its own; and what no page asks for.
	@closed path */_stcore/metrics */_stcore/agent/*
	handle @closed {{
		respond 404
	}}
	@known path {known}
	handle @known {{
		reverse_proxy {workers} {{
			lb_policy cookie {cookie} {secret}
			lb_try_duration 10s
			lb_try_interval 100ms
			fail_duration 2s
			health_uri /_stcore/health
			health_interval 2s
			health_timeout 4s{trusted}
			transport http {{
				dial_timeout 2s
				response_header_timeout 30s
				max_conns_per_host {most}
			}}
			# For a part that isn't there a worker sends its first page.
			@page header Content-Type text/html*
			handle_response @page {{
				@part path {parts}
				route {{
					respond @part "There is no such file." 404
					copy_response
				}}
			}}
		}}
	}}
	handle {{
		respond "There is no such page." 404
	}}
}}
"""


def configuration(
    host: str,
    port: int,
    workers: Sequence[int],
    health: tuple[str, int],
    secret: str,
    *,
    frames: Sequence[str] = (),
    proxies: Sequence[str] = (),
) -> str:
    """Caddy's configuration: requests to ``host`` and ``port`` go to one of the ``workers``.

    ``workers`` are ports of this machine, and ``health`` is an address of it. Cookies are signed
    with ``secret``.
    ``frames`` are other sites whose pages may embed these, such as "https://course.example.org".
    ``proxies`` are those before this one, addresses or ranges, whose forwarded client addresses
    are trusted; anyone else's are replaced by their own address.
    """
    at, health_port = health
    policy = POLICY | {"frame-ancestors": " ".join(["'self'", *frames])}
    # In another site's page a browser sends a cookie back only with these attributes.
    flags = "Secure; SameSite=None; Partitioned" if frames else "Secure; SameSite=Lax"
    return _CONFIGURATION.format(
        host=host,
        port=port,
        workers=" ".join(f"127.0.0.1:{worker}" for worker in workers),
        health=f"[{at}]:{health_port}" if ":" in at else f"{at}:{health_port}",
        cookie=COOKIE,
        secret=secret,
        policy="; ".join(f"{name} {value}" for name, value in policy.items()),
        unused=", ".join(f"{name}=()" for name in _UNUSED),
        known=" ".join(_known_paths()),
        parts=" ".join(_PARTS),
        flags=flags,
        most=CONNECTIONS,
        trusted=f"\n\t\t\ttrusted_proxies {' '.join(proxies)}" if proxies else "",
    )


def _known_paths() -> list[str]:
    """The paths that a worker answers; for any other Streamlit would send the first page."""
    names = {page.address for page in (*PAGES, ADDED)}
    paths = [f"/{name}{end}" for name in sorted(names - {""}) for end in ("", "/")]
    return ["/", *paths, *_PARTS, *_FILES]


def find() -> str:
    """The path of Caddy on this machine. Raises ``ServeError`` with how to install it."""
    path = shutil.which("caddy")
    if path is None:
        raise ServeError(
            "gpt2viz serve needs the proxy Caddy: `apt-get install caddy` on Debian and Ubuntu, "
            "https://caddyserver.com/docs/install elsewhere"
        )
    return path


def become(program: str, text: str) -> None:
    """Become Caddy with that configuration, which isn't written to disk: it holds the secret."""
    reading, writing = os.pipe()
    os.write(writing, text.encode())  # a pipe holds 64 KB
    os.close(writing)
    os.dup2(reading, 0)
    none = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), "/nonexistent")
    command = [program, "run", "--config", "-", "--adapter", "caddyfile"]
    os.execve(program, command, os.environ | none)  # noqa: S606 (no shell is wanted)
