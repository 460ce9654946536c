"""Files, frames and databases become a `Graph`; files are written whole or not at all."""
