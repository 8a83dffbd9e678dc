"""Clusters: what is refused before work starts, shards that are lost, and (slow) a real Ray on this machine."""

import builtins
import math
import socket
import sys
import types

import numpy as np
import pytest

import toy
from treetop.core.errors import ConfigError, MissingExtraError, ResourceError, WorkError
from treetop.core.executor import nodes, ray
from treetop.core.executor.executor import LOCAL, current
from treetop.core.executor.nodes import Facts, Node
from treetop.training import fit

MINE = Facts("1.2.3", "c0de", {"numpy": "2.4.6", "numba": "0.68.1"}, "a chip")


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        super().__init__(str(cause))
        self.cause = cause


class WorkerCrashedError(RayError):
    pass


class ObjectStoreFullError(RayError):
    pass


class FakeRay:
    """As much of Ray as `Cluster` uses; `losses` counts how often each shard is lost before it arrives."""

    exceptions = types.SimpleNamespace(
        RayError=RayError, RayTaskError=RayTaskError, WorkerCrashedError=WorkerCrashedError,
        NodeDiedError=WorkerCrashedError, ObjectLostError=WorkerCrashedError, OutOfMemoryError=WorkerCrashedError,
        ObjectStoreFullError=ObjectStoreFullError,
    )  # fmt: skip

    def __init__(self, cores=2, store=1e6, losses=()):
        self.cores, self.store, self.losses = cores, store, dict(losses)
        self.most, self.under_way, self.cancelled, self.submitted = 0, 0, 0, []

    def nodes(self):
        resources = {"CPU": self.cores, "object_store_memory": self.store}
        return [{"NodeID": "a", "NodeManagerAddress": "10.0.0.1", "Alive": True, "Resources": resources}]

    def remote(self, **options):
        def task(function):
            def submit(*given):
                self.under_way += 1
                self.most = max(self.most, self.under_way)
                self.submitted.append(given[2])
                return function, given

            made = types.SimpleNamespace(remote=submit)
            made.options = lambda **more: made
            return made

        return task

    def put(self, value):
        return value

    def get(self, reference, timeout=None):
        function, given = reference
        self.under_way -= 1
        if self.losses.get(given[2], 0) > 0:
            self.losses[given[2]] -= 1
            raise WorkerCrashedError("gone")
        try:
            return function(*given)
        except Exception as error:
            raise RayTaskError(error) from None

    def cancel(self, reference):
        self.cancelled += 1


@pytest.fixture
def connect(monkeypatch):
    def opened(**options):
        monkeypatch.setattr(nodes, "check_nodes", nodes.alive)
        return ray.Cluster(FakeRay(**options))

    return opened


def times(shard, factor):
    if shard < 0:
        raise ConfigError("shard: below zero.")
    return shard * factor


def test_few_tasks_are_under_way_and_results_come_in_order(connect):
    cluster = connect(cores=2)
    assert cluster.run(times, range(50), 3) == [3 * i for i in range(50)]
    assert cluster._ray.most == ray.AHEAD * 2 and cluster.pieces == ray.PER_CORE * 2
    assert cluster.run(times, iter([77]), cluster.share(3)) == [231] and 77 not in cluster._ray.submitted  # runs here
    assert cluster.run(times, [], 3) == []


def test_a_lost_shard_is_submitted_again_and_no_other(connect):
    cluster = connect(losses={4: 2})
    assert cluster.run(times, range(9), 1) == list(range(9))
    assert cluster._ray.submitted.count(4) == 3 and len(cluster._ray.submitted) == 11


def test_a_shard_that_is_lost_again_and_again_is_an_error(connect):
    cluster = connect(losses={4: 99})
    with pytest.raises(WorkError, match=r"a shard was lost 18 times .*run again with --resume"):
        cluster.run(times, range(9), 1)
    assert cluster._ray.cancelled == 4


def test_an_error_in_a_shard_is_the_one_it_raised(connect):
    with pytest.raises(ConfigError, match="below zero"):
        connect().run(times, [1, -1, 2], 1)


def test_what_no_object_store_holds_is_refused(connect):
    cluster = connect(store=1e4)
    with pytest.raises(ResourceError, match=r"need about 80\.\d KB on every node, .* node 10\.0\.0\.1 holds 10\.0 KB"):
        cluster.share(np.zeros(10_000))
    cluster.share(np.zeros(100))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("No module named 'treetop'", "node n1 has no treetop .* Install treetop 1.2.3"),
        (tuple(MINE._replace(treetop="1.2.4")), "node n1 has treetop 1.2.4, this machine 1.2.3"),
        (tuple(MINE._replace(code="other")), "code of treetop on node n1 differs"),
        (tuple(MINE._replace(libraries={"numpy": "2.4.6", "numba": "0.60"})), "node n1 has numba 0.60, this machine"),
    ],
)
def test_a_node_with_other_software_is_refused(answer, said):
    with pytest.raises(WorkError, match=said):
        nodes.check_node("n1", answer, MINE)
    nodes.check_node("n1", tuple(MINE), MINE)


def test_another_processor_is_worth_a_warning(caplog):
    nodes.check_node("n1", tuple(MINE._replace(processor="another")), MINE)
    assert "node n1 has another processor" in caplog.text


def test_a_shard_is_refused_by_a_node_that_joined_with_other_code():
    with pytest.raises(WorkError, match="joined has other code"):
        ray._call("other", times, 1, 2)
    assert ray._call(nodes.code(), times, 1, 2) == 2
    assert nodes._question()() == tuple(nodes.facts())


@pytest.mark.parametrize(
    "address", ["", "nonsense", "local:0", "local:x", "local:99999", "host", "ray://host", "a:0", "a b:1"]
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ConfigError, match="is no cluster. Give auto"), ray.cluster(address):
        pass


def test_an_address_where_nothing_listens_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        with (
            pytest.raises(WorkError, match=rf"nothing answers there .* --port {port}"),
            ray.cluster(f"127.0.0.1:{port}"),
        ):
            pass
        with pytest.raises(WorkError, match="--ray-client-server-port"), ray.cluster(f"ray://127.0.0.1:{port}"):
            pass


def test_a_port_where_something_else_listens_is_refused(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(ray, "CONNECT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(WorkError, match="something listens there, but it is not Ray"), ray.cluster(address):
            pass


def test_without_ray_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest):
        if name.split(".")[0] == "ray":
            raise ModuleNotFoundError("No module named 'ray'", name="ray")
        return real(name, *rest)

    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[cluster\]'"), ray.cluster("local:2"):
        pass


def test_what_ray_says_becomes_a_sentence():
    mismatch = RuntimeError(
        "Version mismatch: The cluster was started with:\n    Ray: 2.9.0\n    Python: 3.10.1\nThis process was started "
        "with:\n    Ray: 2.60.0\n    Python: 3.11.7\n"
    )
    assert "(2.9.0, Python 3.10.1, 2.60.0, Python 3.11.7). Install the same" in ray._reason(mismatch)
    assert "no Ray runs on this machine" in ray._reason(ConnectionError("Could not find any running Ray instance."))
    assert "[cluster]'" in ray._reason(ImportError("No module named 'grpc'"))
    assert "cannot connect (odd)" in ray._reason(RuntimeError("odd"))


def test_recipes_that_are_not_trained_in_shards_are_refused(connect):
    from treetop.core.executor.executor import using

    with using(connect()), pytest.raises(ConfigError, match=r"--cluster: popular is not trained in shards .*xr_linear"):
        fit("popular", toy.dataset())


def test_a_store_too_small_for_the_data_is_refused_before_work(connect):
    from treetop.core.executor.executor import using

    with using(connect(store=1e3)), pytest.raises(ResourceError, match="--cluster: the training data need about"):
        fit("xr_linear", toy.dataset())


def test_importing_treetop_imports_no_ray():
    import subprocess

    modules = "treetop, treetop.training, treetop.cli.main, treetop.core.executor.ray"
    code = f"import sys, {modules}; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_real_cluster_gives_the_bytes_of_one_process(tmp_path):
    pytest.importorskip("ray")
    data, settings = toy.dataset(n=120), {"tree": {"max_leaf": 4, "branching": 3}}
    fit("xr_linear", data, settings=settings, out=tmp_path / "threads")
    with ray.cluster("local:2") as executor:
        assert current() is executor and executor.cores == 2
        fit("xr_linear", data, settings=settings, out=tmp_path / "ray")
        with pytest.raises(TypeError, match="real number"):
            executor.run(math.sqrt, [4.0, "no number"])
        assert executor.run(math.sqrt, [4.0, 9.0]) == [2.0, 3.0]
    assert current() is LOCAL
    for file in (tmp_path / "threads").rglob("*"):
        if file.is_file() and file.name != "run.json":
            assert file.read_bytes() == (tmp_path / "ray" / file.relative_to(tmp_path / "threads")).read_bytes()


def test_nodes_without_cores_are_not_counted():
    fake = FakeRay(cores=0)
    assert nodes.alive(fake) == []
    with pytest.raises(WorkError, match="no node of the cluster offers a core"):
        nodes.check_nodes(fake)
    assert nodes.alive(FakeRay()) == [Node("a", "10.0.0.1", 2, 1e6)]
