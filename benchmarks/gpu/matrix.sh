#!/usr/bin/env bash
# Learned fusions over data sets and seeds: several processes of fuse.py share one GPU (scores hold, seconds do not). All append to RESULTS.jsonl.
#
#     bash benchmarks/gpu/matrix.sh DATA RESULTS.jsonl SECONDS "FUSE ARGUMENTS" ["FUSE ARGUMENTS" ...]
#
# DATA: a folder as pack.py writes it; *.tar.xz in it are unpacked. No training starts after SECONDS minus 110.
set -u
data=$1 out=$2 seconds=$3
shift 3
export GOMP_SPINCOUNT=0 PYTHONUNBUFFERED=1 PYTHONPATH="$PWD:$PWD/benchmarks/gpu"
scratch=$(mktemp -d) cores=$(nproc) n=$# i=0
export CUDA_MPS_PIPE_DIRECTORY="$scratch/mps" CUDA_MPS_LOG_DIRECTORY="$scratch/log"
mkdir -p "$scratch/mps" "$scratch/log"
for packed in "$data"/*.tar.xz; do
  [ -e "$packed" ] && tar -xJf "$packed" -C "$data" && rm "$packed"
done
python benchmarks/gpu/pack.py "$data" --unpack
if ! { nvidia-cuda-mps-control -d && timeout 40 python -c "import torch; torch.ones(8, device='cuda').sum().item()"; }; then
  echo quit | timeout 5 nvidia-cuda-mps-control
  unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
  echo "without MPS"
fi
for words in "$@"; do
  a=$((cores * i / n)) b=$((cores * (i + 1) / n - 1))
  OMP_NUM_THREADS=$((b - a + 1)) taskset -c "$a-$b" timeout "$seconds" python benchmarks/gpu/fuse.py --data "$data" \
    --seconds $((seconds - 110)) --out "$out" $words >"$scratch/$i.log" 2>&1 &
  i=$((i + 1))
  sleep 1
done
wait
for log in "$scratch"/*.log; do tail -n 2 "$log" | cut -c1-400; done
