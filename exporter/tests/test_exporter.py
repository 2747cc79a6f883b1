"""The exporter in a process of its own (trainer.py), asked over HTTP, with its files on a disk. Only vLLM's base classes
are stood in for; `npm run test:vllm` has the real ones."""

import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request

import pytest

here = pathlib.Path(__file__).parent
host = socket.gethostname()


class Trainer:
    """trainer.py at work. Variables are the ones after SCOPE_EXPORTER_, in small letters."""

    def __init__(self, log, **variables):
        own = {name: value for name, value in os.environ.items() if not name.startswith("SCOPE_EXPORTER_")}
        own["PYTHONPATH"] = os.pathsep.join([str(here / "stand_in"), str(here.parent)])
        own.update({f"SCOPE_EXPORTER_{name.upper()}": str(value) for name, value in variables.items()})
        self.log = log
        with open(log, "w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, here / "trainer.py"],
                env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
            )
        self.children = []

    def do(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the trainer broke: {self.log.read_text()}"
        return json.loads(answer)

    def fork(self):
        self.children.append(self.do("fork"))
        return self.children[-1]

    def end(self):
        """As Python ends by itself."""
        self.process.stdin.close()
        assert self.process.wait(10) == 0, self.log.read_text()

    def lines(self, level):
        return [line for line in self.log.read_text().splitlines() if line.startswith(f"{level} vllm.scope_exporter ")]

    def kill(self):
        for pid in [self.process.pid, *self.children]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


@pytest.fixture
def trainer(tmp_path):
    """Starts trainers; none of them outlives the test."""
    started = []

    def start(**variables):
        started.append(Trainer(tmp_path / f"log-{len(started)}", **variables))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "engines").mkdir()
    return tmp_path / "engines"


def announced(folder, pid):
    """The one target of a process' file; the file has nothing but what is documented."""
    [entry] = json.loads((folder / f"{host}-{pid}.json").read_text())
    [target] = entry.pop("targets")
    assert entry == {"labels": {"host": host, "pid": str(pid)}}
    return target


def get(address, query=""):
    with urllib.request.urlopen(f"http://{address}/metrics{query}", timeout=5) as reply:
        assert reply.status == 200
        assert reply.headers["Content-Type"].startswith("text/plain; version=")
        return reply.read().decode()


def local(target):
    """The same port over loopback: a test must not depend on the machine's own name being known."""
    return f"127.0.0.1:{target.rpartition(':')[2]}"


def soon(what, *arguments):
    """Waits until it is true; where a signal or the end of a process needs a moment."""
    until = time.monotonic() + 10
    while not what(*arguments):
        assert time.monotonic() < until
        time.sleep(0.02)


def refuses(address):
    name, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex((name, int(port))) != 0


def test_announces_an_address_that_answers_with_the_engines_metrics(trainer, folder):
    one = trainer(dir=folder)
    one.do("engine")
    one.do("generate 500")
    target = announced(folder, one.process.pid)
    assert re.fullmatch(re.escape(host) + r":\d+", target)
    assert os.listdir(folder) == [f"{host}-{one.process.pid}.json"]
    body = get(local(target))
    assert '\nvllm:generation_tokens_total{engine="0",model_name="tiny"} 500.0\n' in body
    assert "\nvllm:num_requests_running{" in body
    one.do("generate 12")
    assert '_tokens_total{engine="0",model_name="tiny"} 512.0\n' in get(local(target))
    [said] = one.lines("INFO")
    assert f"http://{target}/metrics" in said and f"{folder}/{host}-{one.process.pid}.json" in said
    assert one.lines("WARNING") == []


def test_only_the_families_asked_for_by_name(trainer, folder):
    one = trainer(dir=folder)
    one.do("engine")
    body = get(local(announced(folder, one.process.pid)), "?name[]=vllm:generation_tokens_total")
    samples = [line for line in body.splitlines() if line and not line.startswith("#")]
    assert samples == ['vllm:generation_tokens_total{engine="0",model_name="tiny"} 0.0']


def test_several_engines_of_a_process_are_behind_one_address(trainer, folder):
    one = trainer(dir=folder)
    one.do("engine")
    target = announced(folder, one.process.pid)
    one.do("engine")
    one.do("generate 7")
    assert announced(folder, one.process.pid) == target
    assert len(one.lines("INFO")) == 1
    assert len(os.listdir(folder)) == 1
    assert '_tokens_total{engine="0",model_name="tiny"} 7.0\n' in get(local(target))


def test_the_file_goes_when_the_process_ends(trainer, folder):
    one, other = trainer(dir=folder), trainer(dir=folder)
    one.do("engine")
    other.do("engine")
    assert len(os.listdir(folder)) == 2
    one.end()
    assert os.listdir(folder) == [f"{host}-{other.process.pid}.json"]


def test_the_file_goes_with_the_last_engine_and_comes_with_the_next(trainer, folder):
    # NeMo RL lets go of its engine and then has Ray kill the process
    one = trainer(dir=folder)
    one.do("engine")
    one.do("engine")
    target = announced(folder, one.process.pid)
    one.do("end-engine")
    assert announced(folder, one.process.pid) == target
    one.do("end-engine")
    assert os.listdir(folder) == []
    one.do("engine")
    assert announced(folder, one.process.pid) == target
    one.do("generate 5")
    assert '_tokens_total{engine="0",model_name="tiny"} 5.0\n' in get(local(target))
    assert one.lines("WARNING") == []


def test_the_file_of_a_killed_process_stays(trainer, folder):
    # not wished for, but documented: nobody is left to remove it
    one = trainer(dir=folder)
    one.do("engine")
    one.kill()
    assert refuses(local(announced(folder, one.process.pid)))


def test_a_forked_child_leaves_its_parents_file_alone(trainer, folder):
    one = trainer(dir=folder)
    one.do("engine")
    one.do("fork-and-end")
    one.do("fork-and-end-engines")
    assert "vllm:generation_tokens_total" in get(local(announced(folder, one.process.pid)))


def test_an_engine_in_a_forked_child_has_an_address_of_its_own(trainer, folder):
    one = trainer(dir=folder)
    one.do("engine")
    child = one.fork()
    target, own = announced(folder, one.process.pid), announced(folder, child)
    assert target != own
    assert "vllm:generation_tokens_total" in get(local(own))
    os.kill(child, signal.SIGUSR1)
    soon(lambda: os.listdir(folder) == [f"{host}-{one.process.pid}.json"])
    assert "vllm:generation_tokens_total" in get(local(target))


def test_a_forked_child_does_not_keep_the_port_of_a_killed_parent_open(trainer, folder):
    one = trainer(dir=folder)
    one.do("engine")
    child = one.fork()
    target = announced(folder, one.process.pid)
    os.kill(one.process.pid, signal.SIGKILL)
    one.process.wait()
    assert "vllm:generation_tokens_total" in get(local(announced(folder, child)))
    assert refuses(local(target))


def test_without_a_folder_only_this_machine_can_ask(trainer):
    one = trainer()
    one.do("engine")
    [said] = one.lines("INFO")
    address = re.search(r"http://(127\.0\.0\.1:\d+)/metrics", said)[1]
    assert "SCOPE_EXPORTER_DIR is not set" in said
    assert "vllm:generation_tokens_total" in get(address)
    # all interfaces would answer there too
    assert refuses(address.replace("127.0.0.1", "127.0.0.2"))
    assert one.lines("WARNING") == []


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_port_bind_address_and_name_can_be_given(trainer, folder):
    port = free_port()
    one = trainer(dir=folder, port=port, bind="127.0.0.1", name="node-7.cluster")
    one.do("engine")
    assert announced(folder, one.process.pid) == f"node-7.cluster:{port}"
    assert "vllm:generation_tokens_total" in get(f"127.0.0.1:{port}")


def test_a_bound_address_is_the_one_that_is_announced(trainer, folder):
    one = trainer(dir=folder, bind="127.0.0.1")
    one.do("engine")
    assert "vllm:generation_tokens_total" in get(announced(folder, one.process.pid))


@pytest.mark.parametrize("name", ["fd00::7", "[fd00::7]"])
def test_ipv6_names_are_announced_in_brackets(trainer, folder, name):
    port = free_port()
    one = trainer(dir=folder, port=port, name=name)
    one.do("engine")
    assert announced(folder, one.process.pid) == f"[fd00::7]:{port}"


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_address_can_be_bound(trainer, folder):
    one = trainer(dir=folder, bind="::1")
    one.do("engine")
    target = announced(folder, one.process.pid)
    assert target.startswith("[::1]:")
    assert "vllm:generation_tokens_total" in get(target)


def goes_on_with_one_warning(one):
    """The engine, and a second one; returns the warning."""
    for _ in range(2):
        one.do("engine")
        one.do("generate 3")
    [warning] = one.lines("WARNING")
    assert one.lines("INFO") == []
    assert "Traceback" not in one.log.read_text()
    return warning


def test_a_port_that_is_taken_costs_a_warning(trainer, folder):
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        one = trainer(dir=folder, port=port)
        warning = goes_on_with_one_warning(one)
    assert f"no metrics are served on 0.0.0.0 port {port}" in warning and "in use" in warning
    assert os.listdir(folder) == []
    one.end()


@pytest.mark.parametrize("wrong", ["http", "-1", "65536"])
def test_a_port_that_is_none_costs_a_warning(trainer, folder, wrong):
    assert "SCOPE_EXPORTER_PORT" in goes_on_with_one_warning(trainer(dir=folder, port=wrong))


def test_an_address_that_is_not_of_this_machine_costs_a_warning(trainer, folder):
    # of a block that is reserved for documents
    assert "192.0.2.1" in goes_on_with_one_warning(trainer(dir=folder, bind="192.0.2.1"))


@pytest.mark.parametrize("wrong", ["http://node-7", "node-7:9000", "node 7"])
def test_a_name_that_is_none_costs_a_warning(trainer, folder, wrong):
    assert "SCOPE_EXPORTER_NAME" in goes_on_with_one_warning(trainer(dir=folder, name=wrong))
    assert os.listdir(folder) == []


def test_a_missing_folder_costs_a_warning_and_is_not_made(trainer, tmp_path):
    one = trainer(dir=tmp_path / "missing", bind="127.0.0.1")
    warning = goes_on_with_one_warning(one)
    assert f"there is no folder {tmp_path / 'missing'}" in warning
    assert not (tmp_path / "missing").exists()
    port = re.search(r"served on 127\.0\.0\.1 port (\d+), but not announced", warning)[1]
    assert "vllm:generation_tokens_total" in get(f"127.0.0.1:{port}")
    one.end()


def test_a_file_that_cannot_be_written_costs_a_warning_and_leaves_nothing(trainer, folder):
    # root may write everywhere, but not a file onto a folder
    one = trainer(dir=folder)
    (folder / f"{host}-{one.process.pid}.json").mkdir()
    assert "but not announced" in goes_on_with_one_warning(one)
    assert os.listdir(folder) == [f"{host}-{one.process.pid}.json"]
    one.end()


def test_who_connects_and_says_nothing_is_no_trouble(trainer, folder):
    one = trainer(dir=folder)
    one.do("engine")
    address = local(announced(folder, one.process.pid))
    one.do("lose-patience-sooner")
    with socket.create_connection(address.split(":"), timeout=10) as silent:
        assert "vllm:generation_tokens_total" in get(address)
        assert silent.recv(1) == b""
    one.do("have-patience")
    with socket.create_connection(address.split(":")):
        assert "vllm:generation_tokens_total" in get(address)
        one.end()


def test_a_scrape_that_is_given_up_is_no_trouble(trainer, folder):
    one = trainer(dir=folder)
    one.do("engine")
    address = local(announced(folder, one.process.pid))
    for _ in range(5):
        with socket.create_connection(address.split(":")) as rude:
            # linger for no time: closed with a reset
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            rude.sendall(b"GET /metrics HTTP/1.1\r\n")
    assert "vllm:generation_tokens_total" in get(address)
    one.end()
    assert "Traceback" not in one.log.read_text()


def test_a_later_vllm_may_pass_and_ask_for_more(trainer, folder):
    one = trainer(dir=folder)
    one.do("later-vllm")
    one.do("engine more")
    one.do("generate 1")
    assert "vllm:generation_tokens_total" in get(local(announced(folder, one.process.pid)))


def test_vllm_finds_it_by_its_entry_point():
    text = (here.parent / "pyproject.toml").read_text()
    group = re.search(r'\[project\.entry-points\."vllm\.stat_logger_plugins"\]\n\w+ = "([\w.]+):(\w+)"\n', text)
    code = (
        f"from {group[1]} import {group[2]} as plugin\n"
        "from vllm.v1.metrics.loggers import AggregateStatLoggerBase\n"
        "assert issubclass(plugin, AggregateStatLoggerBase)\n"
    )
    paths = os.pathsep.join([str(here / "stand_in"), str(here.parent)])
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths}, check=True)
