"""FSDP of PyTorch before FSDP2: flat parameters, as Composer and Lightning shard."""

from __future__ import annotations

from dovetail.parallel.frameworks import Framework, frameworks

# Parameters are views of the flat one that is gathered, so nothing is copied out of it. Autograd concatenates the
# gradients of these views into that of the flat parameter, which is then reduced: the views are torch.split's, whose
# gradient is a cat (torch/distributed/fsdp/_flat_param.py).
frameworks.register("fsdp")(
    Framework(
        summary="FSDP of PyTorch before FSDP2: flat parameters, layer by layer",
        source="PyTorch 2.1 torch/distributed/fsdp/_flat_param.py; Zhao et al. 2023, arXiv:2304.11277",
        aliases=("fsdp1",),
        copies_reduced=True,
    )
)
