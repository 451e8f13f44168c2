"""Measurements on the user's own GPU: operators, collectives and whole steps, as tables that `validate` reads."""
