/** Milliseconds on the machine's monotonic clock: comparable between its processes and threads. */
export function stamp(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
