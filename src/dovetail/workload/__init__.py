"""What is computed: training graphs of operators with shapes, and the models they come from."""
