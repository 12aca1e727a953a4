# SPDX-License-Identifier: Apache-2.0
#
# Runs PROGRAM with WORK_DIR, which is emptied before and removed after.
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})
execute_process(COMMAND ${PROGRAM} ${WORK_DIR} RESULT_VARIABLE status)
file(REMOVE_RECURSE ${WORK_DIR})
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${status}")
endif()
