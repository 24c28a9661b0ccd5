"""Attention with T5's bias table in PyTorch's operators: the peer of bench/attention.lua.

Reads lines "samples heads queries keys D dropout", runs once for each, prints the seconds of CPU
time of forward and gradient, 0 for the gradient of a single query. Eager, f32, one thread.
"""
import sys
import time

import torch
import torch.nn.functional as F

BUCKETS = 32


class Case:
    def __init__(self, samples, heads, queries, keys, size):
        def noise(*shape):
            return (torch.randn(*shape) * 0.5).requires_grad_(queries > 1)
        self.heads, self.size = heads, size
        self.inputs = [noise(samples, n, heads * size) for n in (queries, keys, keys)]
        self.table = noise(BUCKETS, heads)
        distance = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]
        # Which bucket a distance has does not matter for the time.
        self.buckets = distance.abs().clamp(max=BUCKETS // 2 - 1) + (distance > 0) * (BUCKETS // 2)
        self.dy = torch.randn(samples, queries, heads * size)

    def forward(self, dropout):
        q, k, v = (x.view(x.shape[0], x.shape[1], self.heads, self.size).transpose(1, 2)
                   for x in self.inputs)
        bias = F.embedding(self.buckets, self.table).permute(2, 0, 1).unsqueeze(0)
        scores = torch.matmul(q, k.transpose(2, 3)) + bias
        weights = F.dropout(F.softmax(scores, dim=-1), p=dropout)
        y = torch.matmul(weights, v)
        return y.transpose(1, 2).contiguous().view(self.inputs[0].shape)

    def run(self, dropout):
        for x in [*self.inputs, self.table]:
            x.grad = None
        start = time.process_time()
        y = self.forward(dropout)
        middle = time.process_time()
        if y.requires_grad:
            y.backward(self.dy)
        return middle - start, time.process_time() - middle if y.requires_grad else 0.0


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    key, case = None, None
    for line in sys.stdin:
        *sizes, dropout = line.split()
        sizes = tuple(map(int, sizes))
        if sizes != key:
            key, case = sizes, Case(*sizes)
        print("%.9f %.9f" % case.run(float(dropout)), flush=True)


main()
