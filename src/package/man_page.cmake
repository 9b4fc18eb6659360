# cmake -DPROGRAM=... -DVERSION=... -DOUTPUT=... -P man_page.cmake: the manual page, which is what --help says.
set(ENV{NSYS_EXPLAIN_MPI} off)

# Text as it stands, in roff; lines of capitals become headings.
function(to_roff text result)
  string(REPLACE "\\" "\\e" text "${text}")
  string(REPLACE "-" "\\-" text "${text}")
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
  string(REGEX REPLACE "\n([A-Z][A-Z a-z]*[A-Z])\n" "\n.fi\n.SH \\1\n.nf\n" text "\n${text}\n")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

set(page ".TH NSYS\\-EXPLAIN\\-MPI 1 \"\" \"nsys\\-explain\\-mpi ${VERSION}\" \"User Commands\"
.SH NAME
nsys\\-explain\\-mpi \\- explain why a multi\\-GPU job is slow, from its Nsight Systems traces
.SH DESCRIPTION
.nf
")
foreach(command "" show compare diff merge serve)
  set(topics)
  if(NOT command)
    set(topics all)
  endif()
  execute_process(COMMAND ${PROGRAM} ${command} --help ${topics} OUTPUT_VARIABLE help RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${PROGRAM} ${command} --help ended with ${code}")
  endif()
  to_roff("${help}" help)
  if(command)
    string(TOUPPER ${command} heading)
    # The parts of a command's help are parts of its section.
    string(REPLACE ".SH " ".SS " help "${help}")
    string(APPEND page ".fi\n.SH THE COMMAND ${heading}\n.nf\n")
  endif()
  string(APPEND page "${help}")
endforeach()
file(WRITE ${OUTPUT} "${page}.fi\n")
