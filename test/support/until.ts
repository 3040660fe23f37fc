// The tests' only way to wait: look again until it is so, and say what was awaited when it never is.

import { busyFactor } from '../../src/conformance/busy.js'

/** How long and how often `until` looks. */
export interface UntilOptions {
  /**
   * Give up after this many milliseconds, or proportionally more on a machine with more tasks than processors. Default 20 000: only what
   * hangs waits for that long.
   */
  readonly within?: number
  /** Milliseconds between two looks. Default: 5, and more the longer it takes, up to 50: each look has a price in a client, a proxy and a server. */
  readonly every?: number
  /** What is awaited, for the message: "the second process to be granted". Default: the condition's text. */
  readonly what?: string
}

/** What is left of `T` once it is known to be truthy. */
export type Truthy<T> = Exclude<T, false | 0 | '' | null | undefined>

const expired: unique symbol = Symbol('expired')

/**
 * Resolves with the condition's first truthy result. A condition that throws ends the wait with its own error;
 * one that hangs is given up at the deadline like one that stays false.
 *
 * @throws Error naming what was awaited, for how long, and the last result seen.
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  { within = 20_000, every, what = conditionSource(condition) }: UntilOptions = {},
): Promise<Truthy<T>> {
  const began = performance.now()
  let last = 'it was never answered'
  for (;;) {
    const left = () => began + within * busyFactor() - performance.now()
    const result = await beforeDeadline(condition, left)
    if (result === expired) break
    if (result) return result as Truthy<T>
    last = `the last answer was ${show(result)}`
    const pause = every ?? Math.min(5 + (performance.now() - began) / 10, 50)
    if (pause > left()) break
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
  throw new Error(`timed out after ${within} ms waiting for ${what}: ${last}`)
}

async function beforeDeadline<T>(
  condition: () => T | Promise<T>,
  left: () => number,
): Promise<T | typeof expired> {
  const answer = condition()
  if (!(answer instanceof Promise)) return answer
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<typeof expired>((resolve) => {
    const check = () => {
      if (left() > 0) timer = setTimeout(check, left())
      else resolve(expired)
    }
    check()
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}

function conditionSource(condition: () => unknown): string {
  return condition.toString().replace(/^(async )?\(\) => /, '')
}

function show(value: unknown): string {
  return typeof value === 'string' ? `'${value}'` : String(value)
}
