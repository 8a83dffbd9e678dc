#!/bin/sh
# Builds the image `treetop` without pulling another: Debian's packages, this project's wheels, deploy/Containerfile.
# Needs mmdebstrap and podman (Debian's packages). PYTHON: one with pip. BUILD_FLAGS: more options of `podman build`.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
SUITE=bookworm # has Python 3.11
VERSION=3.11
WORK=build/container

rm -rf "$WORK/wheels" build/lib build/bdist.*
mkdir -p "$WORK"
"$PYTHON" -m pip wheel -q --no-deps . -w "$WORK/wheels"
"$PYTHON" -m pip download -q -c constraints.txt --only-binary :all: --python-version "$VERSION" -d "$WORK/wheels" \
    "$(echo "$WORK"/wheels/treetop-*.whl)[serve]"

if ! podman image exists treetop-base; then
    mmdebstrap --quiet --variant=essential --include=python3,python3-venv,libstdc++6,libgomp1 \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        "$SUITE" "$WORK/base.tar"
    podman import -q "$WORK/base.tar" treetop-base
    rm "$WORK/base.tar"
fi

# Health checks are part of Docker's image format only.
# shellcheck disable=SC2086
podman build -q --pull=never --format docker ${BUILD_FLAGS:-} -f deploy/Containerfile -t treetop .
