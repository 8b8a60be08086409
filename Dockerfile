# The collector: `taskveil serve`. docs/operate/operations.md says how it is run; compose.yaml runs it beside PostgreSQL.
#
#     docker build --tag taskveil-collector .

# Built from this checkout. What builds stays in this stage.
FROM python:3.13-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir wheels . \
    && python -m venv /opt/taskveil \
    && /opt/taskveil/bin/pip install --no-cache-dir --constraint constraints.txt "$(ls wheels/*.whl)[server]" \
    && /opt/taskveil/bin/pip uninstall --yes pip

FROM python:3.13-slim
COPY --from=build /opt/taskveil /opt/taskveil
RUN useradd --system --uid 10001 --create-home --home-dir /data collector
ENV PATH=/opt/taskveil/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TASKVEIL_DB=sqlite:////data/collector.db
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
# Past any proxy that the engine puts into the environment: this asks the container itself.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "from urllib.request import ProxyHandler, build_opener; build_opener(ProxyHandler({})).open('http://127.0.0.1:8000/healthz', timeout=4)"]
# In a form without a shell, so that a signal to stop reaches the collector and it finishes what it acknowledged.
ENTRYPOINT ["taskveil"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
STOPSIGNAL SIGTERM
