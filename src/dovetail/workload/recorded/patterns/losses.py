"""Losses: log-probabilities and what is taken of them are one operator over the logits."""

from __future__ import annotations

from dovetail.workload.recorded.flow import Flow, Node


def take_losses(flow: Flow) -> None:
    for node in flow.standing():
        if node.word == "nll":
            chances = flow.thin_maker(node.inputs[0])
            if chances is None or chances.word != "log_softmax":
                continue
            logits = flow.thin(chances.inputs[0])
            made = Node(word="loss", inputs=[logits], outputs=node.outputs[:1], where=node.where)
            made.attributes["logits"] = chances.inputs[0]
            made.attributes["dim"] = chances.attributes.get("dim", -1)
            flow.take([chances, node], made)
        elif node.word == "cross_entropy":
            node.word = "loss"
            node.attributes["logits"] = node.inputs[0]
            node.attributes.setdefault("dim", 1)  # classes come second, behind the batch
            node.inputs = [flow.thin(node.inputs[0])]
