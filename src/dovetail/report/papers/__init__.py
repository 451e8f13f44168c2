"""Reproduced papers in words, one or two files each: plain data for JSON, and tables that have both numbers."""
