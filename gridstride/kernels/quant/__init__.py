"""Matrices in few bits: their formats. Its modules need torch."""
