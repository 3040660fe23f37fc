/** Parses durations as people write them (`30s`, `500ms`, `5m`, `1h`), and formats them (`3m 12s`). */
import { toMilliseconds } from 'holdfast'
import { badInput } from './exit.js'

const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
type Unit = keyof typeof units

/** The library's own maximum: anything longer is almost certainly the wrong unit. */
const longest = 366 * units.d

export interface DurationRange {
  /** In ms. @default 0 */
  readonly least?: number
  /** Accepts `forever` as well. @default false */
  readonly forever?: boolean
}

/**
 * @param option as the user typed it, for the message: `--wait`.
 * @returns milliseconds, a whole number or Infinity.
 * @throws CliError that names the option, the value and the remedy.
 */
export function parseDuration(option: string, text: string, range: DurationRange = {}): number {
  const { least = 0, forever = false } = range
  if (forever && text === 'forever') return Number.POSITIVE_INFINITY
  const ms = toMilliseconds(text)
  if (ms === undefined) throw badInput(complaint(option, text, forever))
  if (ms > longest) throw badInput(`${option} is at most 366d, got '${text}'`)
  if (ms < least) throw badInput(`${option} must be at least ${formatDuration(least)}, got '${text}'`)
  return ms
}

function complaint(option: string, text: string, forever: boolean): string {
  const got = `got '${text}'`
  if (/^\d+(\.\d+)?$/.test(text)) {
    return `${option} needs a unit, ${got}; did you mean ${text}s or ${text}ms?`
  }
  const also = forever ? ', or forever' : ''
  return `${option} must be a duration such as 500ms, 30s, 5m, 1h or 2d${also}, ${got}`
}

/** At most two units: `950ms`, `12s`, `3m 12s`, `2h 5m`, `3d 4h`; `forever` for Infinity. */
export function formatDuration(ms: number): string {
  if (ms === Number.POSITIVE_INFINITY) return 'forever'
  const sign = ms < 0 ? '-' : ''
  const whole = Math.abs(Math.round(ms))
  if (whole < units.s) return `${sign}${whole}ms`
  const [big, small] = scale(whole)
  const major = Math.floor(whole / units[big])
  const minor = small === undefined ? 0 : Math.floor((whole % units[big]) / units[small])
  return `${sign}${major}${big}${minor > 0 ? ` ${minor}${small}` : ''}`
}

function scale(ms: number): [big: Unit, small?: Unit] {
  if (ms >= units.d) return ['d', 'h']
  if (ms >= units.h) return ['h', 'm']
  return ms >= units.m ? ['m', 's'] : ['s']
}
