"""Operators known by name that no kernel was measured of: refused, never free."""

from __future__ import annotations

from dovetail.cost.eager.launches import Launched, register
from dovetail.errors import NotModelled
from dovetail.workload.dispatched import DispatchedOp

REFUSED = {
    "a Fourier transform": ("aten._fft_r2c", "aten._fft_c2c", "aten._fft_c2r", "aten.stft", "aten.istft"),
    "dense linear algebra": (
        "aten.linalg_solve_triangular", "aten.triangular_solve", "aten.linalg_cholesky_ex", "aten.linalg_lu_factor_ex",
        "aten.linalg_inv_ex", "aten._linalg_svd", "aten._linalg_eigh", "aten.linalg_qr", "aten._linalg_solve_ex",
        "aten._linalg_det", "aten._linalg_slogdet", "aten.cholesky_inverse", "aten.linalg_eig",
    ),
    "a recurrent layer of cuDNN": ("aten._cudnn_rnn", "aten._cudnn_rnn_backward", "aten._thnn_fused_lstm_cell"),
    "CTC loss": ("aten._ctc_loss", "aten._cudnn_ctc_loss", "aten._ctc_loss_backward"),
}  # fmt: skip


def _refuse(op: DispatchedOp) -> Launched:
    word = next(word for word, names in REFUSED.items() if any(op.name.startswith(name) for name in names))
    raise NotModelled(f"the operator {op.name} ({word}) is not modelled: no kernel of it was measured")


for _names in REFUSED.values():
    register(*_names)(_refuse)
