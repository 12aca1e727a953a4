# SPDX-License-Identifier: Apache-2.0
#
# An image that makes Kiln's packages, and seed packs of kernels for the serving image: the compilers for NVIDIA GPUs (NVRTC) and
# the host, and the programs. Needs no GPU. From the root of the tree:
#   docker build -f docker/build.Dockerfile -t kiln-build .
#   docker run --rm -v "$PWD/out:/out" kiln-build kiln warm /kiln/cache/variants.txt --arch sm_90a --cache-dir /out/cache
#   docker run --rm -v "$PWD/out:/out" kiln-build kiln cache pack /out/kernels.pack --cache-dir /out/cache
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
        g++ cmake ninja-build pkg-config dpkg-dev file git python3 python3-pip libboost-context-dev libboost-program-options-dev \
        libsodium-dev libxxhash-dev libfmt-dev libhiredis-dev libssl-dev libdw-dev nlohmann-json3-dev && \
    rm -rf /var/lib/apt/lists/*
COPY . /kiln
WORKDIR /kiln
RUN scripts/package

FROM debian:bookworm-slim
# The releases that scripts/lib.sh names.
ARG NVRTC='nvidia-cuda-nvrtc>=13.0,<13.6 nvidia-cuda-runtime>=13.0,<13.6 nvidia-cuda-crt>=13.0,<13.6 nvidia-cuda-cccl>=13.0,<13.6'
COPY --from=build /kiln/build-package/packages /packages
COPY --from=build /kiln/cache/variants.txt /kiln/cache/variants.txt
RUN apt-get update && apt-get install -y --no-install-recommends g++ python3-pip /packages/*.deb && \
    pip install --break-system-packages --no-cache-dir --no-deps --target /opt/nvrtc $NVRTC && \
    ln -s /opt/nvrtc/nvidia/cu13/lib/libnvrtc*.so.* /usr/local/lib/ && ldconfig && \
    rm -rf /var/lib/apt/lists/*
ENV KILN_NVRTC=/opt/nvrtc/nvidia/cu13/lib/libnvrtc.so.13 CUDA_HOME=/opt/nvrtc/nvidia/cu13
CMD ["kiln", "doctor"]
