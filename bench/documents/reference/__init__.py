"""Reference pages, generated from the program: command line, settings, study file, REST API and Python API."""
