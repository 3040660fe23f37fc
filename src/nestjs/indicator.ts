/** Health for Nest Terminus, by its shape: `this.health.check([() => locksIndicator(locks)('locks')])`. */
import type { HealthOptions, Locks } from 'holdfast'

/** What Terminus takes from an indicator: `up` or `down` under its key, with details. */
export type HealthIndicatorResult<Key extends string = string> = Record<
  Key,
  { readonly status: 'up' | 'down'; readonly [detail: string]: unknown }
>

/**
 * An indicator of whether the store can grant. The details name no host or lock.
 * @param options `timeout`: @default 2_000
 */
export function locksIndicator(
  locks: Pick<Locks, 'health'>,
  options?: HealthOptions,
): <Key extends string>(key: Key) => Promise<HealthIndicatorResult<Key>> {
  return async <Key extends string>(key: Key) => {
    const { ok, status, took, held, doubtful, waiting, error } = await locks.health(options)
    // Terminus reads `status`; the type of a computed key is wider.
    const details = {
      status: ok ? ('up' as const) : ('down' as const),
      store: status,
      took: Math.round(took),
      held,
      doubtful,
      waiting,
      ...(error !== undefined && { message: error.publicMessage }),
    }
    return { [key]: details } as unknown as HealthIndicatorResult<Key>
  }
}
