/** What needs cells must not compile where the driver has none. Checked by tsc, not run. */
import type { DriverFactory, Leader, Locks, Term, Traits } from 'holdfast'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(_: Equal<A, B>): void => undefined

interface NoCells extends Traits {
  readonly modes: readonly ['exclusive', 'shared']
  readonly minTtl: 100
}
declare const noCells: DriverFactory<NoCells>
declare const anyDriver: DriverFactory

export async function withCells(): Promise<void> {
  const locks = createLocks(memory())
  const result = await locks.once('order', async ({ token }) => ({ token }))
  same<typeof result, { token: number }>(true)
  const general: Locks = createLocks(anyDriver)
  await general.once('order', () => 1)
  const term = await locks.election('e').campaign('here')
  same<typeof term, Term>(true)
  for await (const leader of locks.election('e').observe()) same<typeof leader, Leader>(true)
  // @ts-expect-error an election is always exclusive
  await locks.election('e').campaign('here', { permits: 2 })
  await locks.once('order', () => 1, { keep: '5s' })
  // @ts-expect-error a duration has a unit
  await locks.once('order', () => 1, { keep: '5' })
  // @ts-expect-error it is a mutex
  await locks.once('order', () => 1, { permits: 2 })
}

export async function withoutCells(): Promise<void> {
  const locks = createLocks(noCells)
  // @ts-expect-error this driver keeps no results
  await locks.once('order', () => 1)
  // @ts-expect-error nor a count
  locks.latch('l')
  // @ts-expect-error nor who has come
  locks.barrier('b', 2)
  // @ts-expect-error nor a request to give way
  await locks.revoke('m')
  // @ts-expect-error nor can a hold move
  await locks.adopt('ticket')
  // @ts-expect-error nor a size
  locks.pool('p', { permits: 2 })
  // @ts-expect-error nor a leader's value
  locks.election('e')
}
