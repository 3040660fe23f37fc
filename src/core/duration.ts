/** Durations: a number of milliseconds, or a number with its unit. */
import { describe } from './name.js'

const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** Milliseconds, or text such as `'500ms'`, `'30s'`, `'1.5m'`, `'2h'`, `'1d'`. */
export type Duration = number | `${number}${keyof typeof units}`

/** A longer one is almost surely a wrong unit (seconds given as microseconds, a date given as a duration). */
export const maxDuration: number = 366 * units.d

const form = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/

/** The milliseconds of a duration; undefined for anything else. */
export function toMilliseconds(value: unknown): number | undefined {
  if (typeof value === 'number') return value
  const [, digits, unit] = (typeof value === 'string' && form.exec(value)) || []
  return unit === undefined ? undefined : Math.round(Number(digits) * units[unit as keyof typeof units])
}

/**
 * Checks an option and returns its milliseconds.
 * @param infinite may it be Infinity?
 * @throws TypeError when it is neither a number nor a duration as text; RangeError when it is negative, NaN, too
 * short or absurd.
 */
export function duration(option: string, value: unknown, least: number, infinite: boolean): number {
  const ms = toMilliseconds(value)
  if (ms === undefined)
    throw new TypeError(
      `${option} must be a number of milliseconds or text such as '30s', got ${describe(value)}`,
    )
  if (ms === Number.POSITIVE_INFINITY && infinite) return ms
  if (!(ms >= least && ms <= maxDuration)) {
    const range = `from ${least} to ${maxDuration} ms${infinite ? ', or Infinity' : ''}`
    throw new RangeError(
      `${option} must be ${range}, got ${typeof value === 'string' ? describe(value) : ms}`,
    )
  }
  return ms
}
