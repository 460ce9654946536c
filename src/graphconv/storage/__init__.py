"""Graphs on disk: ingest, open, partition, generate; in bounded memory."""
