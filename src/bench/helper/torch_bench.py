# SPDX-License-Identifier: Apache-2.0
#
# What PyTorch reaches, measured as `kiln bench` measures: random data, cold L2 cache, events around each call, all
# queued before it is waited for; every result checked. Arguments: the device, quick or full, and how many bytes push
# everything else out of the L2 cache. Reads problems from standard input, a line each:
#   copy WORDS | attention BATCH HEADS TOKENS HEAD CAUSAL | layer_norm ROWS COLS | softmax ROWS COLS
#   transpose ROWS COLS TYPE
# and prints a line for each way of doing it, with tabs between:
#   PROBLEM NAME MIN MEDIAN MAX COUNT RIGHT|WRONG DETAIL   (microseconds)
# or PROBLEM NAME error REASON. The first line tells the versions.
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except Exception as error:  # a broken installation is as good as none
    print("unavailable\t" + str(error).replace("\n", " ")[:300])
    sys.exit(0)
if not torch.cuda.is_available():
    print("unavailable\tPyTorch " + torch.__version__ + " sees no CUDA device")
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


def times_us(call):
    end_of_warm_up = time.monotonic() + (0.01 if quick else 0.06)
    while True:
        call()
        torch.cuda.synchronize()
        if time.monotonic() > end_of_warm_up:
            break
    begin = time.monotonic()
    flush()
    call()
    torch.cuda.synchronize()
    budget, least, most = (0.06, 5, 11) if quick else (0.4, 11, 51)
    rounds = int(min(most, max(least, budget / (time.monotonic() - begin))))
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(rounds)]
    for start, end in events:
        flush()
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return sorted(start.elapsed_time(end) * 1000 for start, end in events)


def report(problem, name, detail, call, is_right):
    try:
        right = is_right(call())
        times = times_us(call)
        print("%s\t%s\t%.4f\t%.4f\t%.4f\t%d\t%s\t%s" % (problem, name, times[0], statistics.median(times), times[-1],
                                                       len(times), "RIGHT" if right else "WRONG", detail), flush=True)
    except Exception as error:
        print("%s\t%s\terror\t%s" % (problem, name, str(error).replace("\n", " ")[:300]), flush=True)


def near(found, expected, tolerance):
    found, expected = found.double(), expected.double()
    return bool(torch.isfinite(found).all()) and bool(((found - expected).abs() <= tolerance).all())


def copy(problem, words):
    x = torch.randint(0, 1 << 30, (int(words),), generator=generator, device=device, dtype=torch.int32)
    y = torch.empty_like(x)
    report(problem, "torch copy", "", lambda: y.copy_(x), lambda out: torch.equal(out, x))


def attention(problem, batch, heads, tokens, head, causal):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    batch, heads, tokens, head, causal = int(batch), int(heads), int(tokens), int(head), causal == "1"
    q, k, v = (random(batch, heads, tokens, head, dtype=torch.float16) for _ in range(3))

    def is_right(out):
        # Some queries in double precision.
        rows = torch.tensor([0, 1, tokens // 2, tokens - 1], device=device)
        scores = q[0, 0, rows].double() @ k[0, 0].double().T / head ** 0.5
        if causal:
            scores.masked_fill_(torch.arange(tokens, device=device)[None, :] > rows[:, None], float("-inf"))
        return near(out[0, 0, rows], torch.softmax(scores, -1) @ v[0, 0].double(), 4e-3)

    def call():
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    for name, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("FlashAttention", SDPBackend.FLASH_ATTENTION)):
        with sdpa_kernel(backend):
            report(problem, name, "cuDNN %s" % torch.backends.cudnn.version() if name == "cuDNN" else "", call, is_right)


def layer_norm(problem, rows, cols):
    x = random(int(rows), int(cols), dtype=torch.float16)
    weight, bias = (random(int(cols), dtype=torch.float16) for _ in range(2))

    def is_right(out):
        some = x[:3].double()
        expected = (some - some.mean(1, True)) / (some.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        return near(out[:3], expected * weight.double() + bias.double(), 1e-2)

    report(problem, "torch", "layer_norm", lambda: F.layer_norm(x, (int(cols),), weight, bias, 1e-5), is_right)


def softmax(problem, rows, cols):
    x = random(int(rows), int(cols), dtype=torch.float16)

    def is_right(out):
        expected = torch.softmax(x[:3].double(), 1)
        return near(out[:3], expected, 2e-3 * expected + 1e-7)

    report(problem, "torch", "softmax", lambda: torch.softmax(x, 1), is_right)


def transpose(problem, rows, cols, element):
    x = random(int(rows), int(cols), dtype={"float": torch.float32, "half": torch.float16}[element])
    report(problem, "torch", ".t().contiguous()", lambda: x.t().contiguous(),
           lambda out: out.shape[0] == x.shape[1] and torch.equal(out[:97], x[:, :97].T))


print("PyTorch %s, CUDA %s" % (torch.__version__, torch.version.cuda), flush=True)
ways = {"copy": copy, "attention": attention, "layer_norm": layer_norm, "softmax": softmax, "transpose": transpose}
with torch.no_grad():
    for line in sys.stdin:
        words = line.split()
        if words:
            ways[words[0]](line.strip(), *words[1:])
            torch.cuda.empty_cache()
