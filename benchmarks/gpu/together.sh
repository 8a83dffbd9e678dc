#!/usr/bin/env bash
# Several processes share the runs of a plan and one GPU: scores hold, seconds do not compare with runs alone.
#
#     bash benchmarks/gpu/together.sh DATA PLAN RESULTS.jsonl [PROCESSES [SECONDS [LAST]]]
#
# DATA as pack.py writes it. No run begins after LAST seconds, all end after SECONDS. Light runs (words, linear levels)
# gain most; dual encoders fill a GPU alone. MPS lets kernels of several processes run at once, where it is allowed.
set -u
data=$1 plan=$2 out=$3 processes=${4:-8} seconds=${5:-540} last=${6:-400}
export GOMP_SPINCOUNT=0 PYTHONUNBUFFERED=1 PYTHONPATH="$PWD:$PWD/benchmarks/gpu"
scratch=$(mktemp -d) cores=$(nproc)
export NUMBA_CACHE_DIR="$scratch/numba" CUDA_MPS_PIPE_DIRECTORY="$scratch/mps" CUDA_MPS_LOG_DIRECTORY="$scratch/log"
mkdir -p "$scratch/mps" "$scratch/log" "$scratch/claims"
python benchmarks/gpu/pack.py "$data" --unpack
[ -d "$data/wordnet-taxonomy" ] || cp -r treetop/data/bundled/wordnet "$data/wordnet-taxonomy"
if ! { nvidia-cuda-mps-control -d && timeout 40 python -c "import torch; torch.ones(8, device='cuda').sum().item()"; }; then
  echo quit | timeout 5 nvidia-cuda-mps-control
  unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
  echo "without MPS"
fi
for i in $(seq 0 $((processes - 1))); do
  a=$((cores * i / processes)) b=$((cores * (i + 1) / processes - 1))
  OMP_NUM_THREADS=$((b - a + 1)) taskset -c "$a-$b" timeout "$seconds" python benchmarks/gpu/recipe.py --data "$data" \
    --plan "$plan" --seconds "$last" --claims "$scratch/claims" --out "$scratch/$i.jsonl" >"$scratch/$i.log" 2>&1 &
  sleep 1
done
wait
cat "$scratch"/*.jsonl >"$out"
tail -qn 1 "$scratch"/*.log | cut -c1-300
