#!/usr/bin/env python3
"""Makes spec/golden/optima.json: small graphs and their best placements, found by trying all.

    python3 tools/make_optima.py

Needs Python alone and shares nothing with src/partition: prices are written out from the two papers
that they come from, in whole ns and bytes. A problem has the fields of ft.partition, numbers from 1
as there; links carry a byte per ns. "optima" has by cost model: "mixed", the price of the slowest
device of the best of all placements that fit, and "seq", of those in which every device has one
stage: devices in some order, with no value that goes back. null: none fits. Some chains have those
of PipeDream instead, with replicas and "straight", without.
"""
import itertools
import json
import random

BYTES_PER_S = 10 ** 9


def chain(times, sizes, **more):
    edges = [(i, i + 1, size) for i, size in enumerate(sizes)]
    return {"times": times, "edges": edges, **more}


def skips(times, sizes, *others, **more):
    graph = chain(times, sizes, **more)
    graph["edges"] += others
    return graph


def drawn(seed):
    """Nodes in order, each read by the next one in three of four cases and by others by chance."""
    r = random.Random(seed)
    n = r.randint(5, 8)
    edges = []
    for a in range(n):
        size = r.randint(0, 9)  # of the one value that the node makes
        for b in range(a + 1, n):
            if r.random() < (0.75 if b == a + 1 else 0.2):
                edges.append((a, b, size))
    graph = {"times": [r.randint(1, 20) for _ in range(n)], "edges": edges,
             "devices": r.randint(2, 3)}
    if r.random() < 0.5:
        graph["fixed"] = [r.randint(1, 9) for _ in range(n)]
        graph["memory"] = sum(graph["fixed"]) // graph["devices"] + r.randint(1, 6)
    if r.random() < 0.3:
        graph["slowdown"] = [1, 2, 1][:graph["devices"]]
    if r.random() < 0.5:
        graph["grads"] = True
    return graph


GRAPHS = {
    "even chain": chain([4] * 8, [1] * 7, devices=2),
    "chain with a heavy end": chain([1, 1, 1, 1, 1, 9], [2] * 5, devices=3),
    "chain that is better apart": chain([5, 1, 5, 5, 1, 1], [0] * 5, devices=3),
    "chain with one cheap cut": chain([6, 6, 6, 6, 6, 6], [50, 50, 1, 50, 50], devices=2),
    "chain whose values are too large": chain([5, 5, 5, 5], [90, 90, 90], devices=2),
    "chain with gradients": chain([9, 7, 8, 6, 9], [6, 3, 6, 3], devices=2, grads=True),
    "chain that memory decides": chain([9, 1, 1, 1], [1, 1, 1], devices=2, fixed=[1, 8, 8, 8],
                                       memory=17),
    "chain that does not fit": chain([1, 1, 1], [1, 1], devices=2, fixed=[5, 5, 5], memory=7),
    "chain on unequal devices": chain([6, 6, 6, 6], [2, 2, 2], devices=2, slowdown=[1, 3]),
    "diamond": {"times": [2, 9, 9, 2], "edges": [(0, 1, 3), (0, 2, 3), (1, 3, 4), (2, 3, 4)],
                "devices": 2},
    "value for all": {"times": [3, 8, 8, 8, 3], "devices": 3, "edges": [
        (0, 1, 5), (0, 2, 5), (0, 3, 5), (1, 4, 1), (2, 4, 1), (3, 4, 1)]},
    "encoder and decoder": {"times": [5, 5, 4, 7, 7, 3], "devices": 3, "grads": True, "edges": [
        (0, 1, 6), (1, 3, 6), (1, 4, 6), (2, 3, 2), (3, 4, 6), (4, 5, 6)]},
    "residuals": skips([4, 6, 4, 6, 4, 6], [3] * 5, (0, 2, 3), (2, 4, 3), (1, 3, 3), devices=2,
                       grads=True),
    "ends that read one value": skips([8, 3, 3, 3, 8], [2, 2, 2, 2], (0, 4, 2), devices=2),
}
for number in range(16):
    GRAPHS["drawn %d" % (number + 1)] = drawn(number)


# name: times, bytes of values, bytes of parameters, devices
CHAINS = {
    "no parameters": ([6, 5, 4, 3, 6], [1, 1, 1, 1], [0, 0, 0, 0, 0], 3),
    "parameters at the end": ([30, 30, 10, 10], [8, 8, 2], [0, 0, 10, 40], 4),
    "parameters at the beginning": ([10, 10, 30, 30], [2, 9, 9], [60, 30, 0, 0], 4),
    "wide values": ([24, 12, 12, 12, 24], [50, 4, 4, 50], [6, 3, 1, 3, 6], 4),
    "one heavy node": ([5, 100, 5], [3, 3], [1, 4, 1], 5),
    "more devices than nodes": ([16, 20], [5], [4, 3], 6),
}


class Problem:
    def __init__(self, graph):
        self.n, self.devices = len(graph["times"]), graph["devices"]
        self.times, self.edges = graph["times"], graph["edges"]
        self.fixed, self.memory = graph.get("fixed"), graph.get("memory")
        self.slowdown = graph.get("slowdown", [1] * self.devices)
        self.grads = graph.get("grads", False)
        self.value = {}  # by maker: bytes, readers
        for a, b, size in self.edges:
            assert self.value.setdefault(a, (size, set()))[0] == size
            self.value[a][1].add(b)

    def as_fields(self, name):
        fields = {
            "name": name, "node_ns": self.times, "edge_from": [a + 1 for a, _, _ in self.edges],
            "edge_to": [b + 1 for _, b, _ in self.edges],
            "edge_bytes": [size for _, _, size in self.edges],
            "devices": [{"bytes_per_s": BYTES_PER_S, "slowdown": s} for s in self.slowdown],
        }
        if self.grads:
            fields["edge_grad_bytes"] = fields["edge_bytes"]
        if self.fixed:
            fields["fixed_bytes"] = self.fixed
            for device in fields["devices"]:
                device["memory_bytes"] = self.memory
        return fields

    def fits(self, on):
        if not self.fixed:
            return True
        held = [0] * self.devices
        for node, device in enumerate(on):
            held[device] += self.fixed[node]
        return max(held) <= self.memory

    def one_stage_each(self, on):
        """Whether devices can be taken in an order in which no value goes back."""
        left = set(on)
        after = {(on[a], on[b]) for a, b, _ in self.edges if on[a] != on[b]}
        while left:
            first = [d for d in left if not any(b == d and a in left for a, b in after)]
            if not first:
                return False
            left -= set(first)
        return True

    def sums(self, on, device):
        """Work of a device; bytes of what it sends, for each receiver and once; of what it gets."""
        work = sum(t for t, d in zip(self.times, on) if d == device) * self.slowdown[device]
        copies = sent = got = 0
        for maker, (size, readers) in self.value.items():
            others = {on[b] for b in readers} - {on[maker]}
            if on[maker] == device:
                copies += size * len(others)
                sent += size if others else 0
            elif device in others:
                got += size
        return work, copies, sent, got

    def overlap(self, on, device):
        """FTPipe, USENIX ATC 2021, section 4: what hides behind the work costs nothing."""
        work, copies, _, got = self.sums(on, device)
        back = got if self.grads else 0
        return work + max(0, copies - work) + max(0, back - work)

    def sum(self, on, device):
        """Tarnawski et al., NeurIPS 2020: nothing hides; a gradient passes as its value does."""
        work, _, sent, got = self.sums(on, device)
        return work + (sent + got) * (2 if self.grads else 1)

    def optima(self):
        found = {"overlap": {"mixed": None, "seq": None}, "sum": {"mixed": None, "seq": None}}
        for on in itertools.product(range(self.devices), repeat=self.n):
            if not self.fits(on):
                continue
            ways = ["mixed", "seq"] if self.one_stage_each(on) else ["mixed"]
            for model, best in found.items():
                price = max(getattr(self, model)(on, d) for d in range(self.devices))
                for way in ways:
                    best[way] = price if best[way] is None else min(best[way], price)
        return found


def shares(n, parts):
    """All lists of so many whole numbers above 0 with this sum."""
    for cuts in itertools.combinations(range(1, n), parts - 1):
        yield [b - a for a, b in zip((0, *cuts), (*cuts, n))]


def pipedream(times, sizes, params, n_devices):
    """The two optima of a chain. PipeDream, SOSP 2019, section 3.1, as its optimizer computes them:
    r replicas share the work of a stage and the exchange of 4 (r - 1) / r of its parameters; a
    value and its gradient share the links of the replicas, before a stage and behind it, but are
    free behind the first one. All devices are in use."""
    best = {"replicas": None, "straight": None}
    for parts in range(1, min(len(times), n_devices) + 1):
        for lengths in shares(len(times), parts):
            for replicas in shares(n_devices, parts):
                at, slowest = 0, 0
                for length, r in zip(lengths, replicas):
                    work, held = sum(times[at:at + length]), sum(params[at:at + length])
                    slowest = max(slowest, (work + 4 * (r - 1) * held / r) / r)
                    if at > 0:
                        slowest = max(slowest, 2 * sizes[at - 1] / r)
                    at += length
                    if length < at < len(times):
                        slowest = max(slowest, 2 * sizes[at - 1] / r)
                ways = ["replicas"] + (["straight"] if max(replicas) == 1 else [])
                for way in ways:
                    best[way] = slowest if best[way] is None else min(best[way], slowest)
    return best


def main():
    rows = []
    for name, graph in GRAPHS.items():
        problem = Problem(graph)
        rows.append({**problem.as_fields(name), "optima": problem.optima()})
    for name, (times, sizes, params, n_devices) in CHAINS.items():
        graph = chain(times, sizes, devices=n_devices, fixed=params, memory=0)  # 0: no limit
        rows.append({**Problem(graph).as_fields(name),
                     "optima": {"pipedream": pipedream(times, sizes, params, n_devices)}})
    with open("spec/golden/optima.json", "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
