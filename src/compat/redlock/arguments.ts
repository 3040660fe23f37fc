/** Arguments of the `redlock` package's verbs, checked and translated. */
import type { DriverFactory } from 'holdfast'
import { type RedisClient, redis } from 'holdfast/redis'
import { redlock } from 'holdfast/redlock'
import { describe } from './describe.js'
import type { Settings } from './settings.js'

/** How version 4 reports a result to those who give it a function. */
export type Callback<T> = (error: Error | null, result?: T) => void

/** @throws RangeError for none, or for two: of two servers no majority survives the loss of one */
export function toDriver(clients: readonly RedisClient[], { maxTtl }: Settings): DriverFactory {
  const [client] = clients
  if (client === undefined) throw new RangeError('Redlock takes at least one client, got none')
  if (clients.length === 2)
    throw new RangeError(
      'Redlock takes one client, or three or more of independent servers, got 2: a majority of two does not survive the loss of one',
    )
  return clients.length === 1 ? redis({ client, maxTtl }) : redlock({ clients, maxTtl })
}

export function checkDuration(duration: number): void {
  if (!Number.isSafeInteger(duration) || duration < 1)
    throw new RangeError(`duration must be a whole number of milliseconds, got ${describe(duration)}`)
}

export function callBack<T>(result: Promise<T>, done: Callback<T> | undefined): Promise<T> {
  if (done !== undefined)
    result.then(
      (value) => done(null, value),
      (error) => done(error),
    )
  return result
}

export function quoted(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(', ')
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
