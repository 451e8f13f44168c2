"""Products side by side: queries, keys and values, and the two halves of a gated layer, are taken as one each."""

from __future__ import annotations

from dovetail.workload.recorded.drafted import COLS, FIFTH, INNER, Draft, Drafting

_ON_HEADS = ("rope", "rmsnorm", "layernorm", "scale", "elementwise", "bias_add", "concat", "dropout", "copy", "cast")


def merge_products(drafting: Drafting) -> None:
    maker = {draft.makes: draft for draft in drafting.drafts}
    for draft in list(drafting.drafts):
        if draft.kind == "attention":
            _merge_heads(drafting, draft, maker)
        elif draft.kind == "activation" and len(draft.reads) == 2:  # a gate, and what it gates
            products = [maker.get(value) for value in draft.reads]
            merged = _merged(drafting, products, maker, draft.name)
            if merged is not None:
                draft.reads = [merged.makes]


def _merge_heads(drafting: Drafting, attention: Draft, maker: dict[int, Draft]) -> None:
    chains = [_chain(value, maker) for value in attention.reads]
    ends = [chain[-1] if chain else None for chain in chains]
    if all(end is not None and end.kind == "linear" for end in ends):
        is_equal = attention.num_heads == attention.num_kv_heads
        merged = _merged(drafting, ends, maker, "qkv") if is_equal else _merged(drafting, ends[1:], maker, "kv")
        if merged is None and is_equal:
            merged = _merged(drafting, ends[1:], maker, "kv")
        if merged is not None:
            chains = [_chain(value, maker) for value in attention.reads]
            ends = [chain[-1] if chain else None for chain in chains]
        elif ends[0] is ends[1] is ends[2] and ends[0] is not None:
            ends[0].name = "qkv"
    queries, keys, values = attention.reads
    if len(chains[1]) > 1 and ends[1] is ends[2] and len(chains[2]) == 1:
        _ride_along(attention, chains[1][0])
        attention.reads = [queries, keys]
    else:
        attention.reads = list(dict.fromkeys((queries, keys, values)))


def _chain(value: int, maker: dict[int, Draft]) -> list[Draft]:
    """What made it, back to a product: operators on each head, nearest first."""
    found: list[Draft] = []
    while (draft := maker.get(value)) is not None:
        found.append(draft)
        if draft.kind != "vector" or draft.operator not in _ON_HEADS or not draft.reads:
            return found
        value = draft.reads[0]
    return found


def _ride_along(attention: Draft, last: Draft) -> None:
    """Values come out of the same product as keys: the tensor that the last operator on keys leaves holds both."""
    key_width, value_width = attention.sizes[INNER].count, attention.sizes[FIFTH].count
    last.output_frac *= 1.0 + value_width / key_width


def _merged(drafting: Drafting, products: list[Draft | None], maker: dict[int, Draft], name: str) -> Draft | None:
    """One product in place of several that read the same; None where they do not."""
    found: list[Draft] = []
    for draft in products:
        if draft is None or draft.kind not in ("linear", "expert_linear"):
            return None
        if draft not in found:
            found.append(draft)
    first = found[0]
    if len(found) < 2 or any(d.reads != first.reads or d.sizes[:2] != first.sizes[:2] for d in found):
        return None
    if any(d.sizes[INNER] != first.sizes[INNER] or d.is_tied != first.is_tied for d in found):
        return None
    if any((d.frozen, d.frozen_bias) != (d.weight, d.bias) for d in found) and any(
        d.frozen + d.frozen_bias for d in found
    ):
        return None  # one that is trained beside one that is not
    gone = {draft.makes for draft in found}
    first.name = name
    total = first.sizes[COLS]
    for draft in found[1:]:
        total = type(total)(total.count + draft.sizes[COLS].count)
        first.weight += draft.weight
        first.bias += draft.bias
        first.frozen += draft.frozen
        first.frozen_bias += draft.frozen_bias
        first.owns = [*first.owns, *draft.owns]
        drafting.drafts.remove(draft)
    first.sizes[COLS] = total
    for draft in drafting.drafts:
        if draft is not first:
            reads = [first.makes if value in gone else value for value in draft.reads]
            draft.reads = reads if draft.kind == "attention" else list(dict.fromkeys(reads))
    maker.update(dict.fromkeys(gone, first))
    return first
