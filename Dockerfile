# syntax=docker/dockerfile:1
# The HTTP service on CPUs: docker build -t omnidc . && docker run --rm -p 7861:7861 omnidc
FROM python:3.12-slim AS build
WORKDIR /src
RUN python -m venv /opt/omnidc
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/omnidc/bin/pip install --no-cache-dir ".[web]"

FROM python:3.12-slim
RUN useradd --system --create-home --uid 10001 omnidc
COPY --from=build /opt/omnidc /opt/omnidc
ENV PATH=/opt/omnidc/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
WORKDIR /home/omnidc
EXPOSE 7861
# The image has no curl; /healthz needs no key.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7861/healthz', timeout=4)"]
# OMNIDC_API_KEY sets the key that requests must carry.
ENTRYPOINT ["omnidc"]
CMD ["serve", "--host", "0.0.0.0", "--port", "7861"]
