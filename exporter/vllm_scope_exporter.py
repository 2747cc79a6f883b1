# SPDX-License-Identifier: Apache-2.0
"""Makes the vLLM engines of this process scrapeable, and announces them.

vLLM loads `Exporter` from the entry point group `vllm.stat_logger_plugins` in the process that owns `AsyncLLM`, and
makes one for every AsyncLLM. It records nothing: vLLM's own Prometheus logger beside it fills prometheus_client's
registry. Once per process this serves that registry over HTTP, and names the address in a file of the form that
Prometheus' file_sd reads. Settings are environment variables (docs/nemo-rl.md); their names do not begin with VLLM_,
since vLLM warns of such a name that it does not know, or refuses to start. A failure is a line in the log and never the
engine's.
"""

import ipaddress
import json
import logging
import os
import re
import socket
import socketserver
import threading
import weakref

from prometheus_client import MetricsHandler
from vllm.v1.metrics.loggers import AggregateStatLoggerBase

# a child of vLLM's own logger: its lines come where vLLM's come, at the level that vLLM was given
logger = logging.getLogger("vllm.scope_exporter")


class Exporter(AggregateStatLoggerBase):
    """One per AsyncLLM. What vLLM passes is not looked at, so that a vLLM that passes more is no trouble."""

    def __init__(self, *_args, **_more):
        _begin()
        engine = object()
        _engines.add(engine)
        # called when vLLM lets go of this, or at the process' exit
        weakref.finalize(self, _end, engine)

    def record(self, *_args, **_more):
        pass

    def log_engine_initialized(self):
        pass


# vLLM calls this interface unstable: a method that a later one asks for must not keep an engine from starting
Exporter.__abstractmethods__ = frozenset()


class _Handler(MetricsHandler):
    # seconds; who connects and says nothing must not keep a thread of the trainer for ever
    timeout = 30


class _Server(socketserver.ThreadingTCPServer):
    """Not http.server's: that one looks its own name up at the start, which takes long where DNS is broken.
    Not start_http_server either: it gives no server back before prometheus_client 0.20."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, bind, port):
        self.address_family, _, _, _, address = socket.getaddrinfo(
            bind, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        super().__init__(address, _Handler)

    def handle_error(self, _request, _client_address):
        # a scrape that was given up; the default prints a traceback into the trainer's output
        logger.debug("a scrape broke off", exc_info=True)


_server = None
_announcement = None
# of those that live, one thing each; not the exporters themselves, which would then live for ever
_engines = set()


def _begin():
    """Serves, from the first engine of a process on, and announces while there are engines. Does not raise."""
    global _server, _announcement
    if _engines:
        return
    folder = os.environ.get("SCOPE_EXPORTER_DIR")
    # without a folder nobody elsewhere is told of it, so nobody elsewhere needs to reach it
    bind = os.environ.get("SCOPE_EXPORTER_BIND") or ("0.0.0.0" if folder else "127.0.0.1")
    port = os.environ.get("SCOPE_EXPORTER_PORT") or "0"
    state = f"no metrics are served on {bind} port {port}"
    try:
        if not _server:
            _server = _Server(bind, _number(port))
            threading.Thread(target=_server.serve_forever, name="vllm-scope-exporter", daemon=True).start()
        port = _server.server_address[1]
        state = f"metrics are served on {bind} port {port}, but not announced"
        target = _target(os.environ.get("SCOPE_EXPORTER_NAME") or _name_of(bind), port)
        if folder:
            _announcement = _announce(folder, target)
        said = f"announced in {_announcement}" if folder else "not announced: SCOPE_EXPORTER_DIR is not set"
        logger.info("vLLM Scope exporter: metrics at http://%s/metrics, %s", target, said)
    except Exception as error:
        logger.warning("vLLM Scope exporter: %s: %s", state, error)


def _end(engine):
    """Takes the file away with the last engine. The address goes on answering: a later engine has the same one."""
    _engines.discard(engine)
    if _announcement and not _engines:
        _remove(_announcement)


def _number(port):
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError(f"SCOPE_EXPORTER_PORT is {port!r}, which is no port")
    return int(port)


def _name_of(bind):
    """The host's name where all interfaces are bound, otherwise the one address that answers."""
    try:
        everywhere = ipaddress.ip_address(bind).is_unspecified
    except ValueError:  # a name
        everywhere = False
    return socket.gethostname() if everywhere else bind


def _target(name, port):
    """host:port, an IPv6 address in brackets."""
    try:
        return f"[{ipaddress.IPv6Address(name.strip('[]'))}]:{port}"
    except ValueError:
        pass
    if not re.fullmatch(r"[\w.-]+", name):
        raise ValueError(f"SCOPE_EXPORTER_NAME is {name!r}; it takes a host's name or address and nothing else")
    return f"{name}:{port}"


def _announce(folder, target):
    """Gives the file's path. Written beside and renamed, so that a reader finds a whole file or none."""
    if not os.path.isdir(folder):
        # not made here: a folder that is not mounted would become one that nobody else sees
        raise ValueError(f"SCOPE_EXPORTER_DIR: there is no folder {folder} (in a container: is it mounted?)")
    host = socket.gethostname()
    path = os.path.abspath(os.path.join(folder, f"{host}-{os.getpid()}.json"))
    beside = f"{path}.tmp"
    labels = {"host": host, "pid": str(os.getpid())}
    try:
        with open(beside, "w", encoding="utf-8") as file:
            json.dump([{"targets": [target], "labels": labels}], file)
        os.replace(beside, path)
    except OSError:
        _remove(beside)
        raise
    return path


def _remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def _forget():
    """A forked child has no thread that serves, and its parent's file is not its own; an engine in it starts anew."""
    global _server, _announcement, _engines
    if _server:
        # or the port would seem open as long as the child lives, with nobody who answers
        _server.socket.close()
    _server, _announcement, _engines = None, None, set()


os.register_at_fork(after_in_child=_forget)
