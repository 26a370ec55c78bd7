"""Environments in processes of their own, watched over: see `vector` for the whole, the other modules for its parts."""
