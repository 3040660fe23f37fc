/** The results of several runs of one measurement. The median is the figure; minimum and maximum show how far to trust it. */
export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
  readonly runs: number
}

export function spread(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b)
  return {
    median: quantile(sorted, 0.5),
    min: sorted[0] ?? Number.NaN,
    max: sorted.at(-1) ?? Number.NaN,
    runs: sorted.length,
  }
}

/** The `q` quantile of `sorted`, interpolated between neighbours; NaN for an empty list. */
export function quantile(sorted: readonly number[], q: number): number {
  const at = (sorted.length - 1) * q
  const below = sorted[Math.floor(at)]
  const above = sorted[Math.ceil(at)]
  if (below === undefined || above === undefined) return Number.NaN
  return below + (above - below) * (at - Math.floor(at))
}
