"""The time of one collective as NCCL or RCCL runs it: algorithm and protocol as the library selects them."""
