"""Programs as users of other clients have them, rewritten for this one; docs/migration.md says what had to change.

A function is a program. Its docstring is the part of the original that could not stay.
"""
