# The gateway alone, as a user without rights; what it writes is under /data, so the root may be read-only.
FROM python:3.11-slim AS build
WORKDIR /build
RUN python -m venv /opt/gateway
# The dependencies first: they change less often than the source, and a layer of their own is kept.
COPY pyproject.toml README.md LICENSE ./
RUN mkdir adapters gateway storage \
 && touch adapters/__init__.py gateway/__init__.py storage/__init__.py \
 && /opt/gateway/bin/pip install --no-cache-dir '.[export,otel,postgres]' \
 && /opt/gateway/bin/pip uninstall --yes rollout-gateway
COPY adapters adapters
COPY storage storage
COPY gateway gateway
RUN /opt/gateway/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11-slim
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin gateway \
 && install --directory --owner=gateway --group=gateway --mode=0750 /data
COPY --from=build /opt/gateway /opt/gateway
ENV PATH=/opt/gateway/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ROLLOUT_GATEWAY_HOST=0.0.0.0 \
    ROLLOUT_GATEWAY_PORT=9090 \
    ROLLOUT_GATEWAY_DATABASE=sqlite:////data/rollouts.db
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 9090
# Its stop_notice and stop_grace (35 s) have to be shorter than what the container gets: `docker stop --time 45`.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ[\"ROLLOUT_GATEWAY_PORT\"]}/healthz', timeout=2)"]
ENTRYPOINT ["rollout-gateway"]
CMD ["serve"]
