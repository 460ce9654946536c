"""The labelling page: a person and a model label a graph together."""
