FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE scripts/constraints.txt ./
COPY app ./app
# Bytecode by hash: the same files give the same image, and a read-only root still starts fast.
RUN python -m venv --without-pip /opt/grove-admission \
    && pip --python /opt/grove-admission/bin/python install --no-cache-dir --no-compile --constraint constraints.txt . \
    && /opt/grove-admission/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/grove-admission/lib

FROM python:3.11-slim
RUN pip uninstall --yes --quiet --root-user-action=ignore pip setuptools wheel
COPY --from=build /opt/grove-admission /opt/grove-admission
USER 65532:65532
ENV PATH=/opt/grove-admission/bin:$PATH PYTHONDONTWRITEBYTECODE=1
EXPOSE 8443
ENTRYPOINT ["grove-admission"]
CMD ["--help"]
