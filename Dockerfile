# The commands of GeoAlign with the versions that the tests run with. docs/install.md says how to build and use it.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    HOME=/tmp \
    USER=geoalign

WORKDIR /geoalign

# PyTorch first and by itself: it takes most of the time and of the space, and changes least.
ARG TORCH_INDEX
COPY constraints.txt ./
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$(grep '^torch==' constraints.txt)"

COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt '.[trl,report]'

COPY configs configs
COPY recipes recipes
# Runs are written here, by whichever user `docker run --user` names.
RUN mkdir runs && chmod 1777 runs

ENTRYPOINT ["geoalign"]
CMD ["audit", "recipes/rollouts/substring_reward.jsonl"]
