/** Milliseconds on the one monotonic clock of the machine: comparable between its processes and threads. */
export function stamp(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
