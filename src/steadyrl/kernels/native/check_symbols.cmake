# Fails the build if an object compiled for one instruction set defines a weak symbol, which the linker would merge with
# another one's (run with -DNM=<nm> -DOBJECTS=<objects>).
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND "${NM}" -C --defined-only "${object}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ [wWvVuU] [^\n]*" weak "${symbols}")
  if(weak)
    message(FATAL_ERROR "${object} shares symbols with other instruction sets: ${weak}")
  endif()
endforeach()
