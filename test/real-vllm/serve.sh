#!/bin/bash
# serve.sh DIR PORT [vllm options]: one server on 127.0.0.1:PORT; stop it by its process group
dir=$1 port=$2
shift 2
cd "$dir" || exit 1
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
export VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1 VLLM_SERVER_DEV_MODE=1
exec venv/bin/vllm serve ./tiny --served-model-name tiny --load-format dummy --dtype float32 \
  --max-model-len 2048 --host 127.0.0.1 --port "$port" --enforce-eager "$@"
