"""Answers in words: records for machines, tables for people. Nothing is computed here that evaluate did not say."""
