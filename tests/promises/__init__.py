"""What users rely on, as `recorded/` holds it: tables of studies, and the names of every interface.

Modules of this package compare the program with the recording. Other promises already have tests; they carry the
marker `promise` too, so that `pytest -m promise` runs all of them:

- `tests/service/test_openapi.py`: `openapi.json` is that of the program, and compatible with the released one.
- `tests/contracts/migrations`: databases of earlier schema revisions (0005, 0009, 0012) are upgraded and show the
  same rows.
- `tests/end_to_end/test_old_versions.py`: a study that an earlier version began is completed by this one.
- `tests/test_public_names.py`: every public name can be imported from the package.
- `tests/docs/test_reference.py`: the reference pages list every command, option, operation and public name.
"""
