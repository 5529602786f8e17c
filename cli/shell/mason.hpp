#pragma once

#include "cli/shell/shell.hpp"

namespace plan {

/// Ai2's `mason.py --num_nodes 8 --gpus 8 -- accelerate launch --num_processes 8 ...` as every node starts it: with
/// accelerate's processes multiplied by the nodes, and their number (open-instruct, mason.py). Other commands stay.
void start_on_every_node(ShellCommand& command);

}  // namespace plan
