# The server of jiyi; docs/server.md says how to run it, compose.yaml does so next to PostgreSQL.
#   docker build --tag jiyi .

FROM python:3.13-slim-trixie AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY jiyi jiyi
COPY examples examples
# pip stays outside the environment: nothing that installs reaches the last stage with it.
RUN python -m venv --without-pip /app \
    && pip --python /app/bin/python install --no-cache-dir --constraint constraints.txt \
        ".[api,mcp,openai,otel,postgres]"

FROM python:3.13-slim-trixie
LABEL org.opencontainers.image.title="jiyi" \
      org.opencontainers.image.description="Memory for LLM agents, as a server" \
      org.opencontainers.image.licenses="MIT"
RUN groupadd --gid 10001 jiyi \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin jiyi \
    && install --directory --owner=jiyi --group=jiyi --mode=700 /data
COPY --from=build /app /app
# Nothing is written but to /data and /tmp: the rest may be read-only.
ENV PATH=/app/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ORT_DISABLE_TELEMETRY=1 \
    JIYI_DATABASE_URL=/data/jiyi.db
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8710
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from http.client import HTTPConnection as To; ask = To('127.0.0.1', 8710, timeout=4); ask.request('GET', '/readyz'); raise SystemExit(ask.getresponse().status != 200)"]
ENTRYPOINT ["jiyi"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8710"]
