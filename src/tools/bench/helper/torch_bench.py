# SPDX-License-Identifier: Apache-2.0
#
# PyTorch's side of `kiln bench`, which asks for a few launches at a time, between its own: random data, cold L2 cache,
# events around each call, all queued before they are waited for, and each before the device comes to it, so that what is
# timed is the device's work and not PyTorch's on the host; every result checked. Arguments: the device, quick or
# full, and how many bytes push everything else out of the L2 cache. Answers questions on standard input, a line each,
# by lines with tabs between their words and "end" behind them; the first answer comes unasked, and tells the versions:
#   version NAME TEXT | unavailable REASON
#   prepare PROBLEM     way NAME RIGHT|WRONG DETAIL, or way NAME error REASON, of each way of doing it
#   time WAY COUNT      times US...: microseconds of so many calls of the way of this number, or error REASON
#   compile PROBLEM[|PROBLEM]...  compiles for all of these at the same time, in a process each, so that preparing them finds
#                       the kernels in the compilers' caches
# A problem is one of
#   copy WORDS | attention BATCH HEADS TOKENS HEAD CAUSAL [GROUP KEYS TYPE VALUES] | layer_norm ROWS COLS [TYPE]
#   packed_attention HEADS HEAD CAUSAL GROUP TYPE VALUES QUERY_OFFSETS KEY_OFFSETS  (offsets: numbers with commas between)
#   softmax ROWS COLS [TYPE] | rms_norm ROWS COLS TYPE RESIDUAL | transpose ROWS COLS TYPE | sum COUNT TYPE
#   column_sum ROWS COLS TYPE
# where HEADS are those of the keys, with GROUP heads of queries each; queries and keys have HEAD elements and values VALUES.
# RESIDUAL is 1 or 0: whether a residual is added first, and the sum is a result, too.
import os
import subprocess
import sys

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # one kernel at a time; a pool takes longer to start


def answer(*lines):
    for line in lines:
        print("\t".join(str(word).replace("\n", " ").replace("\t", " ")[:300] for word in line))
    print("end", flush=True)


try:
    import torch
    import torch.nn.functional as F
except Exception as error:  # a broken installation is as good as none
    answer(["unavailable", error])
    sys.exit(0)
if not torch.cuda.is_available():
    answer(["unavailable", "PyTorch " + torch.__version__ + " sees no CUDA device"])
    sys.exit(0)

device = torch.device("cuda", int(sys.argv[1]))
quick = sys.argv[2] == "quick"
torch.cuda.set_device(device)
flusher = torch.zeros(int(sys.argv[3]) // 4, dtype=torch.float32, device=device)
sink = torch.zeros((), dtype=torch.float32, device=device)
generator = torch.Generator(device=device)
generator.manual_seed(20261122)


def random(*shape, dtype):
    return (torch.rand(*shape, generator=generator, device=device, dtype=torch.float32) * 2 - 1).to(dtype)


def flush():
    # Reads, as Kiln's own flusher does: what is written would stay in the cache until the call that is timed pushes it
    # out, and pays for it.
    torch.sum(flusher, dim=0, out=sink)


# Some 300 microseconds of the device: what PyTorch, torch.compile's guards and Python take to queue a call.
HOLD_CYCLES = 600000
hold = getattr(torch.cuda, "_sleep", lambda cycles: None)


def near(found, expected, tolerance):
    found, expected = found.double(), expected.double()
    return bool(torch.isfinite(found).all()) and bool(((found - expected).abs() <= tolerance).all())


def compiled(function):
    # For these extents alone, which is what it is best at.
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)


types = {"half": torch.float16, "bfloat16": torch.bfloat16, "float": torch.float32}
tolerance = {"half": 1e-3, "bfloat16": 8e-3, "float": 1e-5}  # relative, of a rounded result


# Each way is a name, a detail, what makes the call, and whether a result is right.
def copy(words):
    x = torch.randint(0, 1 << 30, (int(words),), generator=generator, device=device, dtype=torch.int32)
    y = torch.empty_like(x)
    yield "torch copy", "", lambda: lambda: y.copy_(x), lambda out: torch.equal(out, x)


def attention(batch, heads, tokens, head, causal, group="1", keys="", element="half", values=""):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    batch, heads, tokens, head, causal, group = int(batch), int(heads), int(tokens), int(head), causal == "1", int(group)
    keys = int(keys or tokens)
    q = random(batch, heads * group, tokens, head, dtype=types[element])
    k, v = (random(batch, heads, keys, size, dtype=types[element]) for size in (head, int(values or head)))

    def is_right(out):
        # Some queries in double precision.
        rows = torch.tensor([0, min(1, tokens - 1), tokens // 2, tokens - 1], device=device)
        scores = q[0, 0, rows].double() @ k[0, 0].double().T / head ** 0.5
        if causal:
            scores.masked_fill_(torch.arange(keys, device=device)[None, :] > rows[:, None], float("-inf"))
        return near(out[0, 0, rows], torch.softmax(scores, -1) @ v[0, 0].double(), tolerance[element] * 4)

    def by(backend):
        def call():
            with sdpa_kernel(backend):
                if group == 1:
                    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
        return call

    yield "cuDNN", "cuDNN %s" % torch.backends.cudnn.version(), lambda: by(SDPBackend.CUDNN_ATTENTION), is_right
    yield "FlashAttention", "", lambda: by(SDPBackend.FLASH_ATTENTION), is_right


def packed_attention(heads, head, causal, group, element, values, query_offsets, key_offsets):
    heads, head, causal, group = int(heads), int(head), causal == "1", int(group)
    at_q, at_k = ([int(word) for word in words.split(",")] for words in (query_offsets, key_offsets))
    q = random(at_q[-1], heads * group, head, dtype=types[element])
    k, v = (random(at_k[-1], heads, size, dtype=types[element]) for size in (head, int(values)))
    starts_q, starts_k = (torch.tensor(at, device=device, dtype=torch.int32) for at in (at_q, at_k))
    longest_q, longest_k = (max(b - a for a, b in zip(at, at[1:])) for at in (at_q, at_k))

    def is_right(out):
        # The longest sequence's last query in double precision.
        one = max(range(len(at_q) - 1), key=lambda b: min(at_q[b + 1] - at_q[b], at_k[b + 1] - at_k[b]))
        row = at_q[one + 1] - 1
        scores = k[at_k[one]:at_k[one + 1], 0].double() @ q[row, 0].double() / head ** 0.5
        expected = torch.softmax(scores, -1) @ v[at_k[one]:at_k[one + 1], 0].double()
        return near(out[row, 0], expected, tolerance[element] * 4)

    # What torch.nn.attention.varlen calls. PyTorch 2.11 could use cuDNN, too, but then makes a plan in each call (75 ms), and
    # does not select it by itself.
    def flash():
        return lambda: torch.ops.aten._flash_attention_forward(
            q, k, v, starts_q, starts_k, longest_q, longest_k, 0.0, causal, False)[0]

    yield "FlashAttention", "", flash, is_right


def eager_and_compiled(function, x, is_right):
    yield "eager", "", lambda: lambda: function(x), is_right

    def make():
        faster = compiled(function)
        return lambda: faster(x)
    yield "torch.compile", "", make, is_right


def layer_norm(rows, cols, element="half"):
    x = random(int(rows), int(cols), dtype=types[element])
    weight, bias = (random(int(cols), dtype=types[element]) for _ in range(2))

    def is_right(out):
        some = x[:3].double()
        expected = (some - some.mean(1, True)) / (some.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        return near(out[:3], expected * weight.double() + bias.double(), tolerance[element] * 10)

    yield from eager_and_compiled(lambda x: F.layer_norm(x, (int(cols),), weight, bias, 1e-5), x, is_right)


def softmax(rows, cols, element="half"):
    x = random(int(rows), int(cols), dtype=types[element])

    def is_right(out):
        expected = torch.softmax(x[:3].double(), 1)
        return near(out[:3], expected, tolerance[element] * 2 * expected + 1e-7)

    yield from eager_and_compiled(lambda x: torch.softmax(x, 1), x, is_right)


def rms_norm(rows, cols, element, residual):
    shape = (int(cols),)
    x = random(int(rows), *shape, dtype=types[element])
    weight = random(*shape, dtype=types[element])
    added = random(int(rows), *shape, dtype=types[element]) if residual == "1" else None

    def plain(x):
        return F.rms_norm(x, shape, weight, 1e-5)

    def of_sum(x):
        added_up = x + added
        return F.rms_norm(added_up, shape, weight, 1e-5), added_up

    def is_right(out):
        some = x[:3].double()
        if added is not None:
            out, added_up = out
            some = some + added[:3].double()
            if not near(added_up[:3], some, tolerance[element] * 2):
                return False
        expected = some / (some.square().mean(1, True) + 1e-5).sqrt() * weight.double()
        return near(out[:3], expected, tolerance[element] * 10)

    yield from eager_and_compiled(plain if added is None else of_sum, x, is_right)


def transpose(rows, cols, element):
    x = random(int(rows), int(cols), dtype=types[element])

    def is_right(out):
        return out.shape[0] == x.shape[1] and out.is_contiguous() and torch.equal(out[:97], x[:, :97].T)

    yield from eager_and_compiled(lambda x: x.t().contiguous(), x, is_right)


def total(n, element):
    x = random(int(n), dtype=types[element])

    def is_right(out):
        return near(out, x.sum(dtype=torch.float64), 1e-6 * int(n) + 1e-3)

    yield from eager_and_compiled(lambda x: torch.sum(x, dtype=torch.float32), x, is_right)


def column_sum(rows, cols, element):
    x = random(int(rows), int(cols), dtype=types[element])

    def is_right(out):
        return near(out[:97], x[:, :97].sum(0, dtype=torch.float64), 1e-6 * int(rows) + 1e-3)

    yield from eager_and_compiled(lambda x: torch.sum(x, 0, dtype=torch.float32), x, is_right)


problems = {"copy": copy, "attention": attention, "packed_attention": packed_attention, "layer_norm": layer_norm,
            "softmax": softmax, "rms_norm": rms_norm, "transpose": transpose, "sum": total, "column_sum": column_sum}
calls = []  # of the problem that was prepared


def prepare(words):
    calls.clear()
    torch.cuda.empty_cache()
    lines = []
    try:
        for name, detail, make, is_right in problems[words[0]](*words[1:]):
            call = None
            try:
                call = make()
                lines.append(["way", name, "RIGHT" if is_right(call()) else "WRONG", detail])
                torch.cuda.synchronize()
            except Exception as error:
                lines.append(["way", name, "error", error])
            calls.append(call)
    except Exception as error:  # no memory for the inputs
        lines.append(["way", words[0], "error", error])
        calls.append(None)
    return lines


def compile_ahead(problems):
    # This script, as it was started, but for the flushing; it ends with its input.
    command = sys.orig_argv[:-1] + ["4"]
    running = []
    try:
        for problem in problems:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            running.append(process)
            process.stdin.write(("prepare " + problem + "\n").encode())
            process.stdin.close()
            if len(running) >= (os.cpu_count() or 1):
                running.pop(0).wait()
        for process in running:
            process.wait()
    finally:  # else what is left of them would run while kernels are timed
        for process in running:
            process.kill()
            process.wait()
    return []


def times(way, count):
    call = calls[int(way)]
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(int(count))]
    call()
    torch.cuda.synchronize()
    for start, end in events:
        hold(HOLD_CYCLES)
        flush()
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return ["times"] + ["%.4f" % (start.elapsed_time(end) * 1000) for start, end in events]


versions = [["version", "PyTorch", torch.__version__], ["version", "PyTorch's CUDA", torch.version.cuda]]
try:
    versions.append(["version", "cuDNN", torch.backends.cudnn.version()])
    import triton
    versions.append(["version", "Triton", triton.__version__])
except Exception:
    pass
answer(*versions)
with torch.no_grad():
    for line in sys.stdin:
        words = line.split()
        try:
            if words[0] == "prepare":
                answer(*prepare(words[1:]))
            elif words[0] == "compile":
                answer(*compile_ahead(line.strip().removeprefix("compile ").split("|")))
            else:
                answer(times(*words[1:]))
        except Exception as error:
            answer(["error", error])
