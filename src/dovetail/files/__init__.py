"""YAML and JSON into values: the one place that reads what people write.

Whatever a file holds, the answer is a value or one `DovetailError` of one line that says which rule was broken, by
what, and where. pydantic checks shapes here and goes no further: what leaves are the frozen values of the layers above.
"""
