# docker build -t penstock . && docker run --rm -v "$PWD:/data" -w /data penstock sort big.txt -o sorted.txt -S 1G
# io_uring and userfaultfd are used where the container's seccomp profile allows them: `penstock doctor` tells.
FROM debian:12 AS build
WORKDIR /penstock
COPY . .
RUN tools/setup.sh
RUN tools/build.sh static
RUN cmake --install build/static --prefix /usr/local --strip

FROM debian:12-slim
COPY --from=build /usr/local /usr/local
ENTRYPOINT ["penstock"]
