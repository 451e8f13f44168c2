"""ASTRA-sim's own answers, to the nanosecond: its closed forms, its queues and its workload layer."""
