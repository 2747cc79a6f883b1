"""Logs rows from a file with the real wandb, for wandb-bench.ts: `python log_rows.py ROWS.jsonl PROJECT RUN_ID`.

Prints {"wall": s, "python": s, "core": s}: the time from init to the end of finish, and the CPU time of this process and
of its wandb-core, null where the system does not tell.
"""

import json
import os
import pathlib
import sys
import time

import wandb


def cpu_of_children():
    """Seconds of the processes that this one started and that still run; null: there is no /proc."""
    ticks = 0
    if not pathlib.Path("/proc/self/stat").exists():
        return None
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[1]) == os.getpid():
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main():
    file, project, run_id = sys.argv[1:]
    with open(file, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    began, used = time.perf_counter(), time.process_time()
    run = wandb.init(project=project, id=run_id)
    run.define_metric("vllm_scope/step")
    run.define_metric("generation_metrics/*", step_metric="vllm_scope/step")
    for row in rows:
        run.log(row, step=row["_step"])
    run.finish()
    wall, used = time.perf_counter() - began, time.process_time() - used
    print(json.dumps({"wall": wall, "python": used, "core": cpu_of_children()}))


main()
