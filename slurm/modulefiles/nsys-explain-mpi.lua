-- Lmod module. Install the tool below `prefix`, put this file as nsys-explain-mpi/VERSION.lua into a module path.
help([[nsys-explain-mpi explains why a multi-GPU job is slow, from the Nsight Systems traces of all its ranks.
  srun nsys-explain-mpi traces/*.sqlite --out report]])
whatis("Name: nsys-explain-mpi")
whatis("Category: performance analysis")
whatis("Description: explains why a multi-GPU job is slow from its Nsight Systems traces")

local prefix = "/opt/nsys-explain-mpi"
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
setenv("NSYS_EXPLAIN_HOME", prefix)
