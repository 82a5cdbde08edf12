# A .deb of vaecf_dist without CUDA for one release of Debian or Ubuntu, installed in a bare system of that release. From
# the repository's root:
#   docker build -f docker/package.Dockerfile --build-arg IMAGE=debian:13 -t vaecf_dist:package .
#   docker run --rm vaecf_dist:package cat /vaecf-dist.deb > vaecf-dist.deb
ARG IMAGE=debian:12
FROM ${IMAGE} AS build
WORKDIR /source
COPY launch launch
RUN launch/install build package && rm -rf /var/lib/apt/lists/*
COPY . .
RUN launch/build -DVAECF_CUDA=OFF
RUN cpack --config build/release/CPackConfig.cmake -B /packages && cp /packages/vaecf-dist_*.deb /vaecf-dist.deb

FROM ${IMAGE}
COPY --from=build /vaecf-dist.deb /
RUN apt-get -qq update && apt-get -qq -y install --no-install-recommends /vaecf-dist.deb && rm -rf /var/lib/apt/lists/*
RUN vaecf_dist --version
CMD ["vaecf_dist", "--help"]
