# run(<command…>): fails with the output of the command; its standard output is in run_output.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT result EQUAL 0)
    string(JOIN " " line ${ARGV})
    message(FATAL_ERROR "${line}\n${out}${err}exit status: ${result}")
  endif()
  set(run_output "${out}" PARENT_SCOPE)
endfunction()

# expect(<text> <regex>): the text matches.
function(expect text regex)
  if(NOT text MATCHES "${regex}")
    message(FATAL_ERROR "expected ${regex} in:\n${text}")
  endif()
endfunction()
