# Spack recipe: copy into a repository of yours as packages/nsys-explain-mpi/package.py.
from spack.package import *


class NsysExplainMpi(CMakePackage):
    """Explains why a multi-GPU job is slow, from the Nsight Systems traces of all its ranks."""

    # Where your site keeps the source; `spack dev-build nsys-explain-mpi@main` in a checkout needs none.
    git = "https://nsys-explain-mpi.invalid/nsys-explain-mpi.git"

    license("Apache-2.0")

    version("main", branch="main")

    variant("html", default=False, description="Write report.html; npm fetches its packages when it is built")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("npm", type="build", when="+html")
    depends_on("node-js", type="build", when="+html")
    depends_on("mpi@3:")
    depends_on("hdf5~mpi")
    depends_on("sqlite@3.31:")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("cli11@2:")
    depends_on("fmt@9:")
    depends_on("re2")
    depends_on("nlohmann-json@3.10:")
    depends_on("simdjson@3:")
    depends_on("cereal@1.3:")
    depends_on("cpp-httplib@0.11:")
    depends_on("googletest@1.12: +gmock", type="test")
    depends_on("benchmark", type="test")

    conflicts("%gcc@:11", msg="C++20 as GCC 12 knows it is needed")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define("NSYS_EXPLAIN_TESTS", self.run_tests),
            self.define_from_variant("NSYS_EXPLAIN_HTML", "html"),
        ]
