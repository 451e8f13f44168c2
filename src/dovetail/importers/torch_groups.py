"""Process groups without processes: PyTorch's fake group, and the objects that recorded ranks exchange."""

from __future__ import annotations

import contextlib
import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias
from unittest import mock

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch.distributed.device_mesh import DeviceMesh

from dovetail.errors import NotModelled
from dovetail.workload.dispatched import CollectiveCall

FAKE = "fake"
MESH_DESC = "mesh_"  # how a device mesh describes the group of one of its dims
WORLD = "world"
EVERYONE = -1  # the target of what is sent to a whole group
Post: TypeAlias = Callable[[int, int, bytes], None]
Fetch: TypeAlias = Callable[[int, int, int], bytes]


class Mailbox:
    """Python objects that ranks send one another, in order, by where they come from and go to.

    Objects for all of a group go to EVERYONE. `post` takes one, `fetch` gives the one at a place, and waits for it.
    """

    def __init__(self, post: Post, fetch: Fetch) -> None:
        self._post, self._fetch = post, fetch
        self._num_read: dict[tuple[int, int], int] = {}

    def send(self, source: int, target: int, objects: Any) -> None:
        self._post(source, target, pickle.dumps(objects))

    def receive(self, source: int, target: int) -> Any:
        place = self._num_read.get((source, target), 0)
        self._num_read[source, target] = place + 1
        return pickle.loads(self._fetch(source, target, place))


def mailbox_of_one() -> Mailbox:
    """For a rank that is run alone: what it sends it can receive, and no other sends anything."""
    sent: dict[tuple[int, int], list[bytes]] = {}

    def post(source: int, target: int, packed: bytes) -> None:
        sent.setdefault((source, target), []).append(packed)

    def fetch(source: int, target: int, place: int) -> bytes:
        found = sent.get((source, target), [])
        if place >= len(found):
            raise NotModelled(f"the code waits for an object of rank {source}, which is not run here")
        return found[place]

    return Mailbox(post, fetch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Which process of a job runs: its rank, how many there are, and how many of them share a node."""

    rank: int
    world_size: int
    gpus_per_node: int

    @property
    def local_rank(self) -> int:
        return self.rank % self.gpus_per_node

    @property
    def environment(self) -> dict[str, str]:
        """As torchrun sets it for its workers."""
        num_local = min(self.gpus_per_node, self.world_size)
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(num_local),
            "GROUP_RANK": str(self.rank // self.gpus_per_node),
            "GROUP_WORLD_SIZE": str(-(-self.world_size // num_local)),
            "ROLE_RANK": str(self.rank),
            "ROLE_WORLD_SIZE": str(self.world_size),
            "ROLE_NAME": "default",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",  # torchrun's default
            "TORCHELASTIC_RUN_ID": "none",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
        }


class Meshes:
    """The device meshes that a script builds."""

    def __init__(self) -> None:
        self.found: list[tuple[tuple[str, int], ...]] = []
        self._dims: dict[str, str] = {}  # by the name of a group, the dim that it is of

    def add(self, mesh: DeviceMesh) -> None:
        """Keeps the dims of a mesh, and which groups are theirs."""
        names = mesh.mesh_dim_names or tuple(f"dim_{place}" for place in range(mesh.ndim))
        self.found.append(tuple((str(name), int(size)) for name, size in zip(names, mesh.shape, strict=True)))
        for place, name in enumerate(names):
            with contextlib.suppress(RuntimeError):  # a mesh without groups
                group = str(mesh.get_group(place).group_name)
                if self._dims.get(group, WORLD) == WORLD:  # a name of the code's own says more
                    self._dims[group] = str(name)

    def label_of(self, group: Any) -> str:
        """The dim of the device mesh that the group is of, or what the code calls it."""
        label = self._dims.get(str(group.group_name))
        desc = str(group.group_desc or "")
        if label is not None:
            return label
        if desc in ("default_pg", "undefined", ""):
            return WORLD if group.size() == dist.get_world_size() else f"group {group.group_name}"
        return desc.removeprefix(MESH_DESC)

    def widest(self, world_size: int) -> tuple[tuple[str, int], ...]:
        """The first mesh with the most dims of more than one rank, over the whole job if there is one."""

        def rank(mesh: tuple[tuple[str, int], ...]) -> tuple[bool, int, bool]:
            num_ranks = 1
            for _, size in mesh:
                num_ranks *= size
            is_named = any(name != WORLD for name, size in mesh if size > 1)
            return num_ranks == world_size, sum(size > 1 for _, size in mesh), is_named

        return max(self.found, key=rank, default=())


@contextlib.contextmanager
def fake_groups(job: Job, mailbox: Mailbox, meshes: Meshes, barrier: Any) -> Iterator[None]:
    """While it lasts, process groups are made without other processes; at its end all are gone.

    `barrier` is called with a group wherever the code has a barrier.
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore

    init, helper, mesh_init = c10d.init_process_group, c10d._new_process_group_helper, DeviceMesh.__init__

    def initialised(*_args: Any, **_kwargs: Any) -> None:
        init(backend=FAKE, store=FakeStore(), rank=job.rank, world_size=job.world_size)

    def made_group(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        if len(given) > 3:
            given[3] = FAKE
        else:
            kwargs["backend"] = FAKE
        kwargs["backend_options"] = None
        kwargs.pop("device_id", None)
        return helper(*given[:6], **kwargs)

    def made_mesh(mesh: Any, *args: Any, **kwargs: Any) -> None:
        mesh_init(mesh, *args, **kwargs)
        meshes.add(mesh)

    def at_barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, **_more: Any) -> Any:
        del device_ids
        return barrier(group or c10d._get_default_group(), async_op)

    names: dict[str, Any] = {
        "init_process_group": initialised,
        "barrier": at_barrier,
        "monitored_barrier": lambda group=None, *_args, **_kwargs: at_barrier(group),
        **_object_calls(job, mailbox),
    }
    with contextlib.ExitStack() as stack:
        for name, made in names.items():
            for place in (c10d, dist):
                stack.enter_context(mock.patch.object(place, name, made))
        stack.enter_context(mock.patch.object(c10d, "_new_process_group_helper", made_group))
        stack.enter_context(mock.patch.object(c10d, "_store_based_barrier", _nothing))
        stack.enter_context(mock.patch.object(dist, "_verify_params_across_processes", _nothing))
        # Groups without processes have no timeouts; the function is newer than some PyTorch that code runs on.
        stack.enter_context(mock.patch.object(dist, "set_timeout", _nothing, create=True))
        stack.enter_context(mock.patch.object(DeviceMesh, "__init__", made_mesh))
        for place in (c10d, dist):
            stack.enter_context(mock.patch.object(place, "is_nccl_available", _yes))
        try:
            yield
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    return None


def _yes() -> bool:
    return True


def _object_calls(job: Job, mailbox: Mailbox) -> dict[str, Any]:
    """Collectives of Python objects: others have what this rank has, or what they were seen to send."""

    def ranks_of(group: Any) -> list[int]:
        return list(dist.get_process_group_ranks(group or c10d._get_default_group()))

    def root(group: Any, rank: int | None, group_rank: int | None) -> int:
        return ranks_of(group)[group_rank] if group_rank is not None else int(rank or 0)

    def broadcast(
        object_list: Any, src: Any = None, group: Any = None, device: Any = None, group_src: Any = None, **_more: Any
    ) -> None:
        del device
        source = root(group, src, group_src)
        if source == job.rank:
            mailbox.send(source, EVERYONE, list(object_list))
        else:
            object_list[:] = mailbox.receive(source, EVERYONE)

    def all_gather(object_list: Any, obj: Any, group: Any = None) -> None:
        object_list[:] = [copy.deepcopy(obj) for _ in ranks_of(group)]

    def gather(
        obj: Any, object_gather_list: Any = None, dst: Any = None, group: Any = None, group_dst: Any = None
    ) -> None:
        if object_gather_list is not None and root(group, dst, group_dst) == job.rank:
            all_gather(object_gather_list, obj, group)

    def scatter(
        scatter_object_output_list: Any,
        scatter_object_input_list: Any = None,
        src: Any = None,
        group: Any = None,
        group_src: Any = None,
    ) -> None:
        source = root(group, src, group_src)
        if source == job.rank:
            mailbox.send(source, EVERYONE, list(scatter_object_input_list))
            found = scatter_object_input_list
        else:
            found = mailbox.receive(source, EVERYONE)
        scatter_object_output_list[0] = found[ranks_of(group).index(job.rank)]

    def send(
        object_list: Any, dst: Any = None, group: Any = None, device: Any = None, group_dst: Any = None, **_more: Any
    ) -> None:
        del device
        mailbox.send(job.rank, root(group, dst, group_dst), list(object_list))

    def receive(
        object_list: Any, src: Any = None, group: Any = None, device: Any = None, group_src: Any = None, **_more: Any
    ) -> int:
        del device
        source = root(group, src, group_src)
        object_list[:] = mailbox.receive(source, job.rank)
        return source

    return {
        "broadcast_object_list": broadcast,
        "all_gather_object": all_gather,
        "gather_object": gather,
        "scatter_object_list": scatter,
        "send_object_list": send,
        "recv_object_list": receive,
    }


def barrier_call(group: Any, label: str) -> CollectiveCall:
    """The call of a barrier."""
    return CollectiveCall(kind="barrier", ranks=tuple(dist.get_process_group_ranks(group)), num_bytes=0, group=label)
