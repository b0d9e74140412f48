"""Where people already work: one small module for each other library, which imports that library when it is asked for.

Each needs the extra of its name. `import bln_search` loads none of them.
"""
