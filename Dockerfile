# The base with its digest: --build-arg PYTHON=python:3.14-slim@sha256:...
ARG PYTHON=python:3.14-slim

FROM ${PYTHON} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY scripts/install scripts/constraints.txt scripts/build-constraints.txt scripts/tracing-constraints.txt ./scripts/
COPY app ./app
COPY manifests/policies ./manifests/policies
# `tracing` for `tracing.endpoint`
ARG EXTRAS=
RUN ./scripts/install /opt/grove-admission /tmp/wheels "${EXTRAS}"

FROM ${PYTHON}
ARG VERSION=0.10.0
ARG REVISION=
LABEL org.opencontainers.image.title="grove-admission" \
      org.opencontainers.image.description="Admission webhooks and reconcilers for clusters that run Grove, the KAI Scheduler and NVIDIA ComputeDomains" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN pip uninstall --yes --quiet --root-user-action=ignore pip setuptools wheel
COPY --from=build /opt/grove-admission /opt/grove-admission
USER 65532:65532
ENV PATH=/opt/grove-admission/bin:$PATH PYTHONDONTWRITEBYTECODE=1
EXPOSE 8443 8444
ENTRYPOINT ["grove-admission"]
CMD ["--help"]
