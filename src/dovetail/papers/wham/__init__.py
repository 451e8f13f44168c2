"""WHAM's comparison on our cost model: its models, its budget, and the chips that it compares."""
