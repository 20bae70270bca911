"""The page at `/`: its files as they are in packages, which load nothing from anywhere else."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from gapless import feature
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.way import Asked, Ways

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
ways = Ways()


@ways.way("GET /")
async def page(_gateway: Gateway, _request: Request, _asked: Asked) -> Response:
    """Return the page."""
    return _file("index.html")


@ways.way("GET /page/{name:path}")
async def page_file(_gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Return a file of the page. Raises Problem (404) for anything else."""
    return _file(asked["name"])


def _file(name: str) -> Response:
    found = _all()
    if name not in found:
        raise Problem(404, f"the page has no file {name[:100]!r}")
    return Response(found[name], media_type=_TYPES[name.rpartition(".")[2]], headers=_HEADERS)


@cache
def _all() -> dict[str, bytes]:
    """Return all files of the page by path: names are looked up here, never in a file system.

    A feature's `page.js` is features/NAME.js, beside features.js, which exports all of them.
    """
    here = files("gapless.features.gateway.page")
    folders = {"": here, "pages/": here / "pages"}
    found = {
        f"{prefix}{each.name}": each.read_bytes()
        for prefix, folder in folders.items()
        for each in folder.iterdir()
        if each.name.rpartition(".")[2] in _TYPES
    }
    rooms = [package.rpartition(".")[2] for package in _packages()]
    for package, room in zip(_packages(), rooms, strict=True):
        found[f"features/{room}.js"] = (files(package) / "page.js").read_bytes()
    imports = [f'import {room} from "./features/{room}.js";\n' for room in rooms]
    found["features.js"] = "".join([*imports, f"export default [{', '.join(rooms)}];\n"]).encode()
    # Asked for at once; else a module is asked for when another one that needs it is there.
    modules = [
        f'<link rel="modulepreload" href="page/{each}">\n' for each in found if ".js" in each
    ]
    begin = b'<script type="module"'
    found["index.html"] = found["index.html"].replace(begin, "".join(modules).encode() + begin)
    return found


def _packages() -> list[str]:
    """Return the names of packages that have a part of the page."""
    return list(feature.given(lambda each: each.page or None))
