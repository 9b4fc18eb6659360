import {ranks} from "./data.js";
import {node} from "./format.js";

// What the traces do not hold, in one line, and how to record it; without any GPU work the verdict alone says that.
export function absent(reason, command = null) {
  const told = ranks.length === 0 ? null : command;
  return node("p", {class: "absent"}, reason, told ? " " : null, told ? node("code", {}, told) : null);
}

export function isAbsent(body) {
  return body.matches("p.absent");
}

const profile = (options) => `nsys profile ${options} PROGRAM`;

export const record = {
  cuda: profile("-t cuda,nvtx"),
  payload: "nsys export --type sqlite --include-blobs=true --include-json=true REPORT.nsys-rep",
  metrics: profile("-t cuda,nvtx --gpu-metrics-devices=cuda-visible"),
  everyRank: "srun nsys profile -t cuda,nvtx -o rank_%q{SLURM_PROCID}_%h PROGRAM",
  compute: "ncu --csv --page raw --set full --log-file ncu.csv PROGRAM; nsys-explain-mpi TRACES --ncu ncu.csv",
};
