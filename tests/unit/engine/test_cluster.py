"""What is no Dask cluster, or one without workers or of another version, is told at once and in one line."""

from __future__ import annotations

import importlib.util
import pickle
import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from dovetail.engine import cluster, opened
from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.store.version import model_version
from tests import engine_tasks as tasks
from tests.plugin_sources import CHIP, plugin, running


@contextmanager
def listener(greeting):
    """The address of something that says `greeting` to whoever comes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet():
            link, _ = server.accept()
            with link, suppress(ConnectionError):
                link.sendall(greeting)
                link.recv(1)

        thread = threading.Thread(target=greet)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(cluster, "ANSWER_S", 0.3)


def refusal(address):
    with pytest.raises(InvalidInput) as raised, opened(3, cluster=address):
        pass
    return str(raised.value)


@pytest.mark.parametrize("address", ["two words", "tcp://", "http://host:80", "host:port", "tcp://host:123456"])
def test_words_that_are_no_address_are_refused(address):
    assert "such as tcp://host:8786" in refusal(address)


def test_an_address_where_nobody_listens_is_told():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    told = refusal(f"127.0.0.1:{port}")
    assert f"no Dask scheduler answers at 127.0.0.1:{port}" in told
    assert "dask scheduler" in told


@pytest.mark.parametrize("greeting", [b"SSH-2.0-OpenSSH_9.9\r\n", b"\0\0\0\0\0\0\0\0"])
def test_something_else_that_listens_is_told(monkeypatch, greeting):
    monkeypatch.setattr(cluster, "ANSWER_S", 60.0)  # it speaks at once, but a busy machine may be late to hear it
    with listener(greeting) as address:
        assert "is no Dask scheduler" in refusal(address)


def test_something_silent_that_listens_is_told():
    with listener(b"") as address:
        assert "no Dask scheduler answers" in refusal(address)


def test_without_dask_the_way_to_install_it_is_told(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "pip install 'dovetail-codesign[cluster]'" in refusal("tcp://127.0.0.1:8786")


class Client:
    """What is asked of Dask's own before a search begins."""

    def __init__(self, versions):
        self.versions = versions

    def wait_for_workers(self, number, timeout):
        assert timeout > 0
        if len(self.versions) < number:
            raise TimeoutError

    def run(self, act, on_error):
        assert on_error == "return"
        return {f"tcp://10.0.0.{place}:4000": found or act() for place, found in enumerate(self.versions)}


def checked(*versions):
    cluster._check_workers(Client(versions), "tcp://host:8786")


def test_workers_of_this_version_are_taken():
    checked("", "")


def test_a_cluster_without_workers_is_refused_with_the_command_that_starts_some():
    with pytest.raises(InvalidInput, match="has no workers; start some with: dask worker tcp://host:8786 --nthreads 1"):
        checked()


@pytest.mark.parametrize("found", ["0.0.1+abc", ModuleNotFoundError("No module named 'dovetail'")])
def test_a_worker_of_another_version_or_without_dovetail_is_refused(found):
    words = f"worker tcp://10.0.0.1:4000 has Dovetail .*{getattr(found, 'msg', 'abc')}.* must not mix"
    with pytest.raises(InvalidInput, match=words):
        checked("", found)


def test_a_worker_that_comes_later_with_another_version_does_nothing():
    with pytest.raises(InvalidInput, match="must not mix"):
        cluster._acted(tasks.times, 3, 5, "0.0.1+abc")
    assert cluster._acted(tasks.times, 3, 5, model_version()) == 15


def test_a_worker_with_other_plugins_is_told_apart_from_one_of_another_version():
    with running(plugin(CHIP, name="my-chip")) as [mine]:
        version = model_version()
        with pytest.raises(InvalidInput, match="must not mix; name the same plugins and start the workers again"):
            checked("", version.partition(".plugins-")[0])
        assert cluster._question(pickle.dumps(chips["my-chip"]), (mine.plugin,))().name == "my-chip"
        assert cluster._acted(tasks.times, 3, 5, version, (mine.plugin,)) == 15
    assert cluster._version(()) == model_version() != version
