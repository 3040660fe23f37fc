/**
 * The newest connection error of a client. Commands fail with the client's own words ("Reached the max retries") or only with our time
 * limit; only the client's events say why there is no connection.
 */
import { errorMonitor } from 'node:events'
import type { Clock } from '../../core/clock.js'
import { type Emitter, onAll } from './events.js'
import { withoutLogin } from './without-login.js'

/** A client of several servers does not say that all are well again: its errors count for this long, in ms. It tries about every 2 s. */
const recent = 10_000

export interface ConnectionErrors {
  /** Undefined while the client is connected. */
  readonly last: Error | undefined
  start(): void
  stop(): void
}

/**
 * Listens as a monitor, which does not count as a listener of `error`: what the client does about an error without one stays as it is.
 * @param several the client is one of several servers
 * @param others events with an error, beside `error`
 * @param first the error of the last socket, where the client keeps it
 */
export function connectionErrors(
  client: Emitter,
  clock: Clock,
  several: boolean,
  others: readonly string[] = [],
  first: () => Error | undefined = () => undefined,
): ConnectionErrors {
  let last: { readonly error: Error; readonly at: number } | undefined
  let before = first()
  const note = (given: unknown) => {
    const error = withoutLogin(given)
    if (!(error instanceof Error)) return
    // "Failed to refresh slots" must not hide why.
    if (isOfSystem(error) || last === undefined || !isOfSystem(last.error)) last = { error, at: clock.now() }
  }
  const closed = () => {
    const error = first()
    if (error !== before) note(error)
  }
  const ready = () => {
    last = undefined
    before = first()
  }
  let stop = () => {}
  return {
    get last() {
      return last === undefined || (several && clock.now() - last.at > recent) ? undefined : last.error
    },
    start() {
      stop = onAll(client, [
        [errorMonitor, note],
        ...others.map((event) => [event, note] as const),
        ['close', closed],
        ['ready', ready],
      ])
    },
    stop: () => stop(),
  }
}

function isOfSystem({ code, cause }: NodeJS.ErrnoException): boolean {
  return typeof code === 'string' || (cause instanceof Error && isOfSystem(cause))
}
