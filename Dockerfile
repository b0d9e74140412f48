# Two images from one file: `web` serves and has no torch, `worker` trains. docs/deploy.md says how to build and run them.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

# What each image installs, from pyproject.toml: whatever else changes there, the layers below stay.
# EXTRAS: further extras of pyproject.toml for both, such as s3.
FROM ${PYTHON_IMAGE} AS requirements
WORKDIR /requirements
COPY pyproject.toml ./
COPY .ci/image_requirements.py ./.ci/
ARG EXTRAS=""
RUN python .ci/image_requirements.py web ${EXTRAS} > web.txt && python .ci/image_requirements.py worker ${EXTRAS} > worker.txt

# An empty environment; what is installed into it needs no pip when it runs.
FROM ${PYTHON_IMAGE} AS builder
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
RUN python -m venv --without-pip /opt/bln-search
COPY constraints.txt ./

# bln-search itself, to be laid over an environment that has what it needs: a change of it is a small layer.
FROM builder AS source
ENV PIP_CONSTRAINT=/build/constraints.txt
COPY .ci/plotly_bundle.py ./.ci/
RUN mkdir -p service/static && grep -E '^(brotli|zopfli)==' constraints.txt > compression.txt \
 && pip install --requirement compression.txt && python .ci/plotly_bundle.py
COPY pyproject.toml README.md LICENSE ./
COPY bln_search ./bln_search
COPY service ./service
COPY papers ./papers
# What `make docs` built, for the service to show. Without it the image has no documentation: README.md is always there, so
# that the pattern may match nothing.
COPY README.md build/docs* ./service/documentation/
RUN rm service/documentation/README.md \
 && pip wheel --no-cache-dir --no-deps --wheel-dir /wheel . ./papers \
 && pip --python /opt/bln-search/bin/python install --no-cache-dir --no-deps --prefix /installed /wheel/*.whl

FROM ${PYTHON_IMAGE} AS base
RUN groupadd --gid 10001 bln-search \
 && useradd --uid 10001 --gid 10001 --no-log-init --no-create-home --home-dir /var/lib/bln-search \
        --shell /usr/sbin/nologin bln-search \
 && install -d -o 10001 -g 10001 -m 750 /var/lib/bln-search /var/lib/bln-search/checkpoints \
        /var/lib/bln-search/data /var/cache/bln-search
ENV PATH=/opt/bln-search/bin:/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    BLN_SEARCH_HOME=/var/lib/bln-search \
    BLN_SEARCH_CACHE=/var/cache/bln-search \
    BLN_SEARCH_STUDIES=/opt/bln-search/studies \
    BLN_SEARCH_LOG_FORMAT=json
WORKDIR /var/lib/bln-search
USER 10001:10001
STOPSIGNAL SIGTERM
ENTRYPOINT ["bln-search"]

# As small as it can be: of plotly only the script that is served, no tests, no symbols for debuggers (libraries that
# auditwheel patched stay as they are: strip breaks them), and compiled only what the service loads.
FROM builder AS web-environment
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends binutils && rm -rf /var/lib/apt/lists/*
COPY --from=requirements /requirements/web.txt ./
RUN pip --python /opt/bln-search/bin/python install --no-cache-dir --no-compile --constraint constraints.txt \
        --requirement web.txt \
 && site=$(/opt/bln-search/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))") \
 && find "$site/plotly" -mindepth 1 -not -path '*/plotly/package_data' -not -name plotly.min.js -delete \
 && touch "$site/plotly/__init__.py" \
 && rm -r "$site/_plotly_utils" "$site/narwhals" "$site/numpy/f2py" "$site/numpy/distutils" "$site/numpy/random" \
 && find "$site/numpy" "$site/sqlalchemy" -type d \( -name tests -o -name testing -o -name include \) -prune -exec rm -r {} + \
 && find "$site" \( -name '*.a' -o -name '*.py[ix]' -o -name '*.px[di]' -o -name '_simd*.so' -o -name '*_tests*.so' \) -delete \
 && find "$site/pygments/lexers" -name '*.py' -not -name '_*' -not -name python.py -delete \
 && find "$site/sqlalchemy" "$site/uvloop" "$site/httptools" "$site/yaml" -name '*.so' -exec strip --strip-unneeded {} + \
 && /opt/bln-search/bin/python -c "import alembic.command, fastapi, jinja2, numpy, platformdirs, prometheus_client, psutil, \
psycopg, pydantic_settings, rich.console, sqlalchemy.dialects.postgresql.psycopg, sqlalchemy.orm, typer, uvicorn, \
uvicorn.protocols.http.httptools_impl, uvloop, yaml"

FROM base AS web
COPY --from=web-environment /opt/bln-search /opt/bln-search
COPY --from=source /installed /opt/bln-search
COPY studies /opt/bln-search/studies
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8000, timeout=4); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
CMD ["serve", "--no-worker", "--host", "0.0.0.0", "--port", "8000"]
ARG PYTHON_IMAGE
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="bln-search web" \
      org.opencontainers.image.description="REST API and pages of bln-search" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}"

# TORCH_INDEX: where torch comes from. Empty, pip's own index, has the CUDA build;
# https://download.pytorch.org/whl/cpu has the one for machines without a GPU, a fifth of the size.
FROM builder AS worker-environment
ARG TORCH_INDEX=""
RUN pip --python /opt/bln-search/bin/python install --no-cache-dir --no-deps --constraint constraints.txt \
        ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} torch
COPY --from=requirements /requirements/worker.txt ./
RUN pip --python /opt/bln-search/bin/python install --no-cache-dir --constraint constraints.txt --requirement worker.txt

FROM base AS worker
COPY --from=worker-environment /opt/bln-search /opt/bln-search
COPY --from=source /installed /opt/bln-search
COPY studies /opt/bln-search/studies
HEALTHCHECK --interval=30s --timeout=15s --start-period=90s --retries=3 CMD ["bln-search", "workers", "--here"]
CMD ["worker"]
ARG PYTHON_IMAGE
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="bln-search worker" \
      org.opencontainers.image.description="Trains, evaluates and ranks the studies of a bln-search service" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}"
