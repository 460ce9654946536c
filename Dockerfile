# graphconv in a container: docker build -t graphconv . && docker run --rm -v "$PWD:/data" graphconv train ...
# Two stages: the compiler stays behind. Runs as a user without rights, with a home that may be read-only.
FROM python:3.12-slim AS build
# The version of the compiler does not matter: it stays behind.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN python -m venv /opt/graphconv && /opt/graphconv/bin/pip install --no-cache-dir ".[scale]"

FROM python:3.12-slim
RUN useradd --create-home --uid 1000 graphconv && install --directory --owner graphconv /cache
COPY --from=build /opt/graphconv /opt/graphconv
# Matplotlib and downloads want a place of their own to write to.
ENV PATH=/opt/graphconv/bin:$PATH GRAPHCONV_CACHE=/cache/graphconv MPLCONFIGDIR=/cache/matplotlib
USER 1000
WORKDIR /data
ENTRYPOINT ["graphconv"]
