FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY app ./app
RUN python -m venv /opt/grove-admission \
    && /opt/grove-admission/bin/pip install --no-cache-dir --no-compile .

FROM python:3.11-slim
COPY --from=build /opt/grove-admission /opt/grove-admission
USER 65532:65532
ENV PATH=/opt/grove-admission/bin:$PATH PYTHONDONTWRITEBYTECODE=1
EXPOSE 8443
ENTRYPOINT ["grove-admission"]
CMD ["serve"]
