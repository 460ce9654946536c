"""How a model is computed: plans of kernel calls, batches, replicas, blocks on disk, memory."""
