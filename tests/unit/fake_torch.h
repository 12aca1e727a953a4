// SPDX-License-Identifier: Apache-2.0
//
// A package that stands in for PyTorch.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

#include "base/file.h"
#include "bench/torch.h"

namespace kiln::test {

/// A stand-in for PyTorch, which tells on standard error what is asked of the device, in order.
inline constexpr const char* kFakeTorch = R"(
import sys, types

def tell(*words):
    print(*words, file=sys.stderr)

class Tensor:
    def __init__(self, name):
        self.name = name
    def copy_(self, other):
        tell("copy")
        return self
    def __getattr__(self, what):  # any other call writes, for all that is known
        return lambda *_, **__: tell("unknown", what)

class Event:
    def __init__(self, **_):
        pass
    def record(self):
        tell("event")
    def elapsed_time(self, end):
        return 0.5

class Generator:
    def __init__(self, **_):
        pass
    def manual_seed(self, seed):
        pass

class no_grad:
    def __enter__(self):
        pass
    def __exit__(self, *_):
        pass

def zeros(*shape, **_):
    tell("zeros", *shape)
    return Tensor("zeros")

def sum(tensor, dim, out):
    tell("read", tensor.name)

float32, int32, float16, bfloat16 = "float32", "int32", "float16", "bfloat16"
__version__ = "0"
version = types.SimpleNamespace(cuda="0")
device = lambda *_: None
randint = lambda *_, **__: Tensor("x")
empty_like = lambda _: Tensor("y")
equal = lambda *_: True
cuda = types.SimpleNamespace(is_available=lambda: True, set_device=lambda _: None, synchronize=lambda: None,
                             empty_cache=lambda: None, Event=Event, _sleep=lambda cycles: tell("hold"),
                             get_device_properties=lambda _: types.SimpleNamespace(L2_cache_size=1 << 20))
)";

/// For each answer.
inline constexpr std::chrono::seconds kTorchLimit{60};

/// A folder with that PyTorch in it, in place of the one that is installed.
class FakeTorch {
  public:
    explicit FakeTorch(const std::string& more = "") {
        const auto torch = directory_.path() / "torch";
        std::filesystem::create_directories(torch / "nn");
        write_text(torch / "__init__.py", kFakeTorch + more);
        write_text(torch / "nn/__init__.py", "");
        write_text(torch / "nn/functional.py", "");
        write_text(torch / "_dynamo.py", "def reset(): pass\n");
    }
    std::pair<std::string, std::string> variable() const {
        return {"PYTHONPATH", directory_.path().string()};
    }
    bench::TorchSetup setup() const {
        bench::TorchSetup setup;
        setup.quick = true;
        setup.flush_bytes = 4096;
        setup.environment = {variable()};
        return setup;
    }

  private:
    TemporaryDirectory directory_;
};

}  // namespace kiln::test
