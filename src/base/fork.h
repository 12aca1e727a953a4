// SPDX-License-Identifier: Apache-2.0
//
// Noticing fork(): a child has none of its parent's threads, and a lock that one of them held stays held. So
// what belongs to the parent is not repaired in the child but replaced.
#pragma once

#include <sys/types.h>

namespace kiln {

/// How many forks lie between the first process that asked and this one: a number that is another in a child
/// than in its parent. As cheap as reading a variable.
unsigned fork_generation();

/// fork() for a child that only launches what its parent has built, and ends by _exit(): it counts as the same
/// process, so that it goes on with the parent's services and kernels. It may not build anything.
pid_t fork_to_launch();

}  // namespace kiln
