"""The lines that a run must have on W&B, made of the raw tables of its file: what wandb-rows.test.ts holds uploads to.

Written from docs/wandb.md, docs/metrics.md and docs/database.md alone; shares no code with the engine and reads none of
its caches. Only the steps' edges, numbers and kinds are taken from table step.

    python3 rows.py RUN.sqlite --source idle [--evals] [--metrics running,ttft|all] [--workers 16] [--only 3,7,12]

prints {"lines": [...], "summary": {...}, "keys": n}. `--only`: the workers with keys of their own, where a run has more
than the limit. Standard library only.
"""

import argparse
import bisect
import collections
import json
import math
import pathlib
import sqlite3
import sys

SLOTS = 4096  # k = t * 4096 + w
STATISTICS = ["mean", "max", "p95", "min", "sum"]
OF_WORKERS = ["mean", "max", "p95"]

# docs/wandb.md: the eight that go by themselves, and what they are called there
NEMO_RL = {
    "running": "inflight_batch_sizes",
    "waiting": "num_pending_samples",
    "kv_cache_usage": "kv_cache_usage_perc",
    "generation_tokens": "generation_tokens",
    "prefix_cache_queries": "prefix_cache_queries",
    "prefix_cache_hits": "prefix_cache_hits",
    "prefix_cache_hit_rate": "prefix_cache_hit_rate",
    "preemptions": "num_preemptions",
}

# docs/metrics.md, "What is shown": kind and columns
METRICS = {
    "running": ("gauge", "running"),
    "waiting": ("gauge", "waiting"),
    "kv_cache_usage": ("gauge", "kv_usage"),
    "generation_tokens": ("counter", "generation_tokens"),
    "prefix_cache_hit_rate": ("ratio", "prefix_hits", "prefix_queries"),
    "preemptions": ("counter", "preemptions"),
    "ttft": ("latency", "ttft_sum", "ttft_count"),
    "prompt_tokens": ("counter", "prompt_tokens"),
    "prefix_cache_queries": ("counter", "prefix_queries"),
    "prefix_cache_hits": ("counter", "prefix_hits"),
    "inter_token_latency": ("latency", "itl_sum", "itl_count"),
    "waiting_capacity": ("gauge", "waiting_capacity"),
    "waiting_deferred": ("gauge", "waiting_deferred"),
    "queue_time": ("latency", "queue_sum", "queue_count"),
    "prefill_time": ("latency", "prefill_sum", "prefill_count"),
    "decode_time": ("latency", "decode_sum", "decode_count"),
    "e2e_latency": ("latency", "e2e_sum", "e2e_count"),
    "external_cache_hit_rate": ("ratio", "external_hits", "external_queries"),
    # a histogram of tokens, not one of the six latencies
    "tokens_per_step": ("ratio", "iteration_tokens_sum", "iteration_tokens_count"),
    "spec_acceptance_rate": ("ratio", "spec_accepted_tokens", "spec_draft_tokens"),
    "sleep_level": ("gauge", "sleep_level"),
}


class Worker:
    """One engine's samples in their order, and what each of its counters added in each of them."""

    def __init__(self, db, row, columns):
        self.w = row["w"]
        self.several = row["several"] is not None
        self.columns = columns
        self.samples = db.execute(
            f"SELECT k, at, took, epoch, {', '.join(columns)} FROM sample WHERE k % {SLOTS} = ? ORDER BY k", (self.w,)
        ).fetchall()
        self.asked = [s["at"] - s["took"] / 2 for s in self.samples]
        self.there = [s["at"] + s["took"] / 2 for s in self.samples]
        self.at = [s["at"] for s in self.samples]
        for times in (self.asked, self.there, self.at):
            assert times == sorted(times), f"w{self.w} has answers out of their order"
        self.zero = {
            metric
            for (metric,) in db.execute("SELECT metric FROM series WHERE w = ? AND zero_at IS NOT NULL", (self.w,))
        }
        self.grown = {column: self.deltas(column) for column in columns}

    def deltas(self, column):
        """Of each sample; None: there is none."""
        found = []
        before = None
        for s in self.samples:
            value = s[column]
            if value is None or self.several:
                found.append(None)
            elif before is None:
                found.append(value if column in self.zero else None)
            else:
                found.append(value - before[column] if s["epoch"] == before["epoch"] else value)
            if value is not None:
                before = s
        return found

    def edges(self, begin, end, before):
        """Places (a, b] that a window owns; `before`: the b of the window before, -1 where there is none."""
        if self.asked[0] >= end:  # it was not there yet: none of its samples is of this window
            return -1, -1
        a = bisect.bisect_right(self.there, begin) - 1
        b = min(bisect.bisect_left(self.asked, end), len(self.samples) - 1)
        return max(a, before), b

    def restarted(self, places):
        return any(p > 0 and self.samples[p]["epoch"] != self.samples[p - 1]["epoch"] for p in places)


def aggregate(values):
    """Those of them that are there; percentiles as numpy's default."""
    x = sorted(v for v in values if v is not None)
    if not x:
        return {}
    h = (len(x) - 1) * 0.95
    low = math.floor(h)
    high = min(low + 1, len(x) - 1)
    return {
        "mean": math.fsum(x) / len(x),
        "max": x[-1],
        "min": x[0],
        "p95": x[low] + (x[high] - x[low]) * (h - low),
    }


def total(values):
    there = [v for v in values if v is not None]
    return math.fsum(there) if there else None


def varints(blob):
    value = shift = 0
    for byte in blob:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def unpack(blob):
    """docs/database.md, table bucket: (histogram, place of the bucket, increase)."""
    numbers = varints(blob)
    for h in numbers:
        place = -1
        for _ in range(next(numbers)):
            place += 1 + next(numbers)
            yield h, place, next(numbers)


def merged(histograms):
    """Counts over the bounds that all of them have; the last one is of what lies above."""
    common = set.intersection(*(set(bounds) for bounds, _ in histograms))
    bounds = sorted(common)
    counts = [0] * (len(bounds) + 1)
    for own, grown in histograms:
        for place, n in grown.items():
            upper = own[place] if place < len(own) else math.inf
            counts[bisect.bisect_left(bounds, upper)] += n
    return bounds, counts


def percentile(bounds, counts, p):
    """As Prometheus' histogram_quantile: evenly spread inside a bucket, the last bound above it."""
    rank = p * sum(counts)
    below = 0
    for i, n in enumerate(counts):
        if n > 0 and below + n >= rank:
            if i == len(bounds):
                return bounds[-1] if bounds else None
            low = bounds[i - 1] if i > 0 else 0.0
            return low + (bounds[i] - low) * (rank - below) / n
        below += n
    return None


class Run:
    def __init__(self, file, chosen, limit, only):
        self.db = sqlite3.connect(f"{pathlib.Path(file).resolve().as_uri()}?mode=ro", uri=True)
        self.db.row_factory = sqlite3.Row
        meta = dict(self.db.execute("SELECT key, value FROM meta").fetchall())
        self.started, self.interval = meta["startedAt"], meta["intervalMs"]
        self.grace = meta["timeoutMs"] + 2 * self.interval
        self.chosen = [m for m in METRICS if m in chosen]
        columns = sorted({c for m in [*self.chosen, "running"] for c in METRICS[m][1:]})
        rows = self.db.execute("SELECT w, several, first, endpoint FROM worker ORDER BY w").fetchall()
        self.workers = [Worker(self.db, row, columns) for row in rows]
        self.own = only if only is not None else [w.w for w in self.workers][:limit]
        self.ticks = dict(self.db.execute("SELECT t, at FROM tick").fetchall())
        self.last_tick = max(self.ticks.values(), default=0)
        self.seen = {row["w"]: self.ticks[row["first"]] for row in rows}
        removed = dict(self.db.execute("SELECT e, removed FROM endpoint WHERE removed IS NOT NULL").fetchall())
        self.gone = {row["w"]: self.ticks[removed[row["endpoint"]]] for row in rows if row["endpoint"] in removed}
        self.histograms = {
            h: (metric, json.loads(bounds)) for h, metric, bounds in self.db.execute("SELECT * FROM histogram")
        }

    def coverage(self, begin, end):
        """Of `running`. None: nothing was expected."""
        expected = there = 0
        for worker in self.workers:
            if worker.several:
                continue
            until = min(end, self.gone.get(worker.w, end))
            expected += max(0, until - max(begin, self.seen[worker.w])) / self.interval
            inside = worker.samples[bisect.bisect_left(worker.at, begin) : bisect.bisect_right(worker.at, end)]
            there += sum(s["running"] is not None for s in inside)
        return min(1.0, there / expected) if expected > 0 else None

    def is_lower_bound(self, end, places):
        """A worker restarted in it, or was lost: nothing more of it, though the run went on or ends with it silent."""
        for worker in self.workers:
            own = places[worker.w]
            silent = self.last_tick - worker.at[-1] > self.grace and worker.w not in self.gone
            lost = own and worker.asked[-1] < end and (self.last_tick >= end or silent)
            if not worker.several and (lost or worker.restarted(own)):
                return True
        return False

    def requests(self, metric, places):
        """Observations of a latency in the samples that a window owns, one entry for each worker and histogram."""
        found = collections.defaultdict(collections.Counter)
        of = {h for h, (name, _) in self.histograms.items() if name == metric}
        for worker in self.workers:
            for p in places[worker.w]:
                row = self.db.execute("SELECT counts FROM bucket WHERE k = ?", (worker.samples[p]["k"],)).fetchone()
                for h, place, n in unpack(row[0]) if row and not worker.several else ():
                    if h in of:
                        found[worker.w, h][place] += n
        return [(self.histograms[h][1], grown) for (_, h), grown in found.items()]

    def numbers(self, metric, begin, end, places):
        """A metric's keys behind its name, and their values."""
        kind, *columns = METRICS[metric]
        everything, parts, wholes = [], [], []
        row = {}
        for worker in self.workers:
            if kind == "gauge":
                first, last = bisect.bisect_left(worker.at, begin), bisect.bisect_right(worker.at, end)
                values = [s[columns[0]] for s in worker.samples[first:last]]
            else:
                grown = [[worker.grown[c][p] for p in places[worker.w]] for c in columns]
                values = grown[0]
                if kind != "counter":
                    pairs = [pair for pair in zip(*grown) if None not in pair]
                    values = [part / whole for part, whole in pairs if whole > 0]
                    parts += [part for part, _ in pairs]
                    wholes += [whole for _, whole in pairs]
            everything += values
            if worker.w in self.own and kind != "latency":
                statistics = aggregate(values)
                row.update({f"engine_{worker.w}/{s}": statistics.get(s) for s in OF_WORKERS})
        if kind in ("ratio", "latency"):
            whole = total(wholes)
            row["pooled"] = total(parts) / whole if whole else None
        if kind == "latency":
            histograms = self.requests(metric, places)
            if histograms:
                bounds, counts = merged(histograms)
                row.update({f"requests/p{p}": percentile(bounds, counts, p / 100) for p in (50, 95, 99)})
            return row
        statistics = aggregate(everything)
        statistics["sum"] = total(everything) if kind == "counter" else None
        row.update({f"agg/{s}": statistics.get(s) for s in STATISTICS})
        return row

    def rows(self, source, kinds):
        steps = self.db.execute(
            "SELECT number, kind, began, ended FROM step WHERE source = ? ORDER BY n", (source,)
        ).fetchall()
        before = {worker.w: -1 for worker in self.workers}
        line = 0
        for step in steps:
            begin, end = step["began"], step["ended"]
            if end is None:
                continue
            places = {}
            for worker in self.workers:
                a, b = worker.edges(begin, end, before[worker.w])
                places[worker.w] = range(a + 1, b + 1)
                before[worker.w] = b
            if step["kind"] not in kinds:
                continue
            row = {
                "vllm_scope/step_seconds": (end - begin) / 1000,
                "generation_metrics/coverage": self.coverage(begin, end),
                "generation_metrics/lower_bound": int(self.is_lower_bound(end, places)),
            }
            for metric in self.chosen:
                name = f"generation_metrics/{NEMO_RL.get(metric, metric)}"
                for key, value in self.numbers(metric, begin, end, places).items():
                    row[f"{name}/{key}"] = value
            prefix = "eval/" if step["kind"] == "eval" else ""
            yield {
                "_step": line,
                "_timestamp": end / 1000,
                "_runtime": (end - self.started) / 1000,
                "vllm_scope/step": step["number"],
                **({"trainer/global_step": step["number"]} if source == "mark" else {}),
                **{prefix + key: value for key, value in row.items() if value is not None},
            }
            line += 1


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("file")
    ask.add_argument("--source", required=True)
    ask.add_argument("--evals", action="store_true")
    ask.add_argument("--metrics", default=",".join(NEMO_RL))
    ask.add_argument("--workers", type=int, default=16)
    ask.add_argument("--only")
    given = ask.parse_args()
    chosen = list(METRICS) if given.metrics == "all" else given.metrics.split(",")
    unknown = [m for m in chosen if m not in METRICS]
    if unknown:
        sys.exit(f"no such metric: {unknown}")
    only = None if given.only is None else [int(w) for w in given.only.split(",")]
    run = Run(given.file, chosen, given.workers, only)
    lines = list(run.rows(given.source, {"train", "eval"} if given.evals else {"train"}))
    summary = {}
    for line in lines:
        summary.update(line)
    json.dump({"lines": lines, "summary": summary, "keys": len(summary)}, sys.stdout)


main()
