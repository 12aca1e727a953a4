# SPDX-License-Identifier: Apache-2.0
#
# An image to serve from: the shared library, its programs, and kernels that were packed before; no compiler. The GPU's driver comes
# from the NVIDIA container runtime. kiln-build is the image of docker/build.Dockerfile; out/kernels.pack was made with it:
#   docker build -f docker/serve.Dockerfile -t kiln-serve .
#   docker run --rm --gpus all kiln-serve
# An application of yours goes into an image FROM this one; its service has cached_only (docs/embedding.md).
FROM kiln-build AS build

FROM debian:bookworm-slim
COPY --from=build /packages /packages
RUN apt-get update && \
    apt-get install -y --no-install-recommends ca-certificates /packages/libkiln0_*.deb /packages/libkiln-tools*.deb /packages/kiln_*.deb && \
    rm -rf /var/lib/apt/lists/* /packages && useradd --create-home kiln
COPY out/kernels.pack /usr/share/kiln/kernels.pack
# The cache directory takes what a remote cache serves; nothing is compiled.
ENV KILN_SEED_PACKS=/usr/share/kiln/kernels.pack KILN_CACHE_DIR=/home/kiln/cache NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER kiln
CMD ["kiln", "doctor"]
