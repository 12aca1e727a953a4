# SPDX-License-Identifier: Apache-2.0
#
# A public header, INCLUDE_DIR/HEADER, compiles by itself with COMPILER, without a warning, and includes nothing
# but the standard library and other public headers.
file(STRINGS ${INCLUDE_DIR}/${HEADER} lines REGEX "^[ \t]*#[ \t]*include")
foreach(line ${lines})
  if(NOT line MATCHES "^#include <([a-z_]+|kiln/(tools/)?[a-z_]+\\.h)>$")
    message(FATAL_ERROR "${HEADER}: '${line}' is neither the standard library nor <kiln/...>")
  endif()
endforeach()

# Included twice, into a file that has nothing else.
execute_process(
  COMMAND ${COMPILER} -std=c++20 -Wall -Wextra -Wconversion -Werror -I ${INCLUDE_DIR} -fsyntax-only
          -include ${HEADER} -include ${HEADER} -x c++ /dev/null
  RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${HEADER} does not compile by itself without a warning")
endif()
