#!/usr/bin/env python3
"""Writes the contents of a release, as SPDX 2.3 JSON, to standard output: sbom.py VERSION STATIC_BUILD SHARED ARTEFACTS,
where SHARED is the program of the Debian package.

It has the checksum of each artefact, and the Debian package, from dpkg, of each library that is built into the programs or
loaded by them. Licences were looked up in the packages' copyright files, because dpkg does not know them.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

# Licences by source package.
LICENCES = {"liburing": "LGPL-2.1-or-later OR MIT", "fmtlib": "MIT", "cli11": "BSD-3-Clause", "nlohmann-json3": "MIT", "zlib": "Zlib",
            "libzstd": "BSD-3-Clause OR GPL-2.0-only", "lz4": "BSD-2-Clause", "xz-utils": "LicenseRef-public-domain", "bzip2": "bzip2-1.0.6", "pcre2": "BSD-3-Clause",
            "libbpf": "LGPL-2.1-only OR BSD-2-Clause", "elfutils": "LGPL-3.0-or-later OR GPL-2.0-or-later",
            "gcc-12": "GPL-3.0-or-later WITH GCC-exception-3.1", "glibc": "LGPL-2.1-or-later"}
# Header-only libraries.
HEADERS = ["/usr/include/fmt/format.h", "/usr/include/CLI/CLI.hpp", "/usr/include/nlohmann/json.hpp"]


def output(*words):
    return subprocess.run(list(map(str, words)), check=True, stdout=subprocess.PIPE, text=True).stdout


def package_of(file):
    """Name, version, source package and home page of the Debian package of a file."""
    for path in (os.path.realpath(file), str(file), os.path.realpath(file).replace("/usr/lib/", "/lib/", 1)):
        found = subprocess.run(["dpkg", "-S", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if found.returncode == 0:
            name = found.stdout.split(": ")[0].split(",")[0]
            return output("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${source:Package}\t${Homepage}", name).split("\t")
    sys.exit(f"sbom: no Debian package has {file}")


def built_in(build):
    """The archives that the static build links, and the compiler's own."""
    archives = set(re.findall(r"(/usr/lib/\S+?\.a)\b", (build / "build.ninja").read_text()))
    return sorted(archives) + [standard_library(), *HEADERS]


def standard_library():
    """The archive of the C++ library, which all programs contain."""
    return output("g++", "-print-file-name=libstdc++.a").strip()


def loaded(program):
    return sorted(set(re.findall(r"(/\S+\.so\S*) \(", output("ldd", program))))


def main():
    version, static, shared, folder = sys.argv[1], *map(pathlib.Path, sys.argv[2:5])
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    relations, parts, files = [], {}, []

    def part_of(file):
        name, its_version, source, home = package_of(file)
        identity = "SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)
        licence = LICENCES.get(source) or sys.exit(f"sbom: the licence of {source} is not in the list")
        parts[identity] = {"SPDXID": identity, "name": name, "versionInfo": its_version, "supplier": "Organization: Debian",
                           "downloadLocation": "NOASSERTION", "homepage": home or "NOASSERTION", "filesAnalyzed": False,
                           "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION",
                           "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                             "referenceLocator": f"pkg:deb/debian/{name}@{its_version}?distro=bookworm"}]}
        return identity

    static_parts = sorted({part_of(file) for file in built_in(static)})
    loaded_static = sorted({part_of(file) for file in loaded(static / "cli/penstock")})
    loaded_package = sorted({part_of(file) for file in loaded(shared)})
    package_parts = sorted({part_of(file) for file in [standard_library(), *HEADERS]})
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        if path.name.endswith((".spdx.json", "SHA256SUMS")):
            continue
        identity = "SPDXRef-File-" + re.sub(r"[^A-Za-z0-9.-]", "-", path.name)
        files.append({"SPDXID": identity, "fileName": "./" + path.name, "licenseConcluded": "Apache-2.0", "copyrightText": "NOASSERTION",
                      "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(data).hexdigest()},
                                    {"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}]})
        relations.append((identity, "GENERATED_FROM", "SPDXRef-Penstock"))
        linked = {".deb": (package_parts, loaded_package), ".rpm": (static_parts, loaded_static), ".whl": (static_parts, loaded_static),
                  ".gz": (static_parts, loaded_static) if "-linux-" in path.name else ([], [])}[path.suffix]
        relations += [(identity, "STATIC_LINK", part) for part in linked[0]] + [(identity, "DYNAMIC_LINK", part) for part in linked[1]]
    own = {"SPDXID": "SPDXRef-Penstock", "name": "penstock", "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
           "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION"}
    digest = hashlib.sha256("".join(file["checksums"][1]["checksumValue"] for file in files).encode()).hexdigest()
    print(json.dumps({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"penstock-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/penstock-{version}-{digest[:32]}",
        "creationInfo": {"created": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": ["Tool: penstock-sbom"]},
        "hasExtractedLicensingInfos": [{"licenseId": "LicenseRef-public-domain", "extractedText": "liblzma: in the public domain"}],
        "packages": [own, *(parts[key] for key in sorted(parts))], "files": files,
        "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-Penstock"},
                          *({"spdxElementId": a, "relationshipType": b, "relatedSpdxElement": c} for a, b, c in relations)]},
        indent=1))


if __name__ == "__main__":
    main()
