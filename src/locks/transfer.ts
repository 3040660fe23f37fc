/**
 * A lease that goes on in another process: it becomes a ticket here, the ticket travels with the message or the row
 * of the job, and the other process adopts it.
 *
 * ```
 *   export: renew for a whole ttl ──► cell `hand:<id>` = offered ──► stop looking after it ──► ticket
 *   adopt:  cell offered ──► taken by me ──► claim with the attempt of the hold: same token ──► lease
 * ```
 * Once: only one process replaces `offered`. No process renews in between, so the ticket is valid for one ttl. If a
 * process crashes in between, its hold expires. A claim for an expired hold gets another token, or nothing, and is
 * released.
 */

import { adoptGrant } from '../core/adopt-grant.js'
import { CellRef } from '../core/cell-ref.js'
import { createClaim } from '../core/create-claim.js'
import type { Wait } from '../core/driver.js'
import type { Engine } from '../core/engine.js'
import { BackendError, LeaseLostError, UnsupportedError, unavailable } from '../core/errors.js'
import type { Hold } from '../core/hold.js'
import { HeldLease, type Lease } from '../core/lease.js'
import type { Mode } from '../core/mode.js'
import { checkName, describe, quote } from '../core/name.js'
import { type AcquireOptions, checkOptions, resolveTerms } from '../core/options.js'
import { TimeLimit } from '../core/time-limit.js'
import { readOnce } from '../core/with-deadline.js'
import { whileHeld } from './while-held.js'

export type AdoptOptions = Pick<AcquireOptions, 'autoRenew' | 'maxHold' | 'leakWarning'>

interface Ticket {
  readonly v: 1
  readonly id: string
  readonly name: string
  readonly attempt: string
  readonly mode: Mode
  readonly ttl: number
  readonly lockDelay?: number
  readonly token: number
  readonly note?: string
}

const exported = 'offered'
const maxAttempt = 10_000

/** @throws LeaseLostError, TypeError, UnsupportedError, BackendError: the lease then goes on here */
export async function exportLease(engine: Engine, lease: Lease): Promise<string> {
  checkPortable(engine)
  if (!(lease instanceof HeldLease) || lease.hold.engine !== engine)
    throw new TypeError(
      `only a lease of a single lock of these locks can be exported, got ${describe(lease)}`,
    )
  const { hold } = lease
  if (hold.count > 1)
    throw new TypeError(
      `${quote(lease.name)} is entered ${hold.count} times; leave all but one entry before you export it`,
    )
  const { watchdog, token, name } = hold
  const { attempt, mode, note } = watchdog.claim
  const { ttl, lockDelay } = watchdog
  const id = engine.env.id()
  const cellRef = new CellRef(engine, 'hand', id)
  const offer = { value: exported, keep: ttl }
  // While the lease lasts there is time for another try.
  await whileHeld(engine, lease, (bounds) => cellRef.retrying(bounds, () => lease.extend(ttl)))
  assertLasting(engine, hold, ttl)
  await whileHeld(engine, lease, (bounds) =>
    cellRef.update((cell) => (cell === undefined ? offer : undefined), bounds),
  )
  assertLasting(engine, hold, ttl)
  hold.detach()
  const ticket: Ticket = {
    v: 1,
    id,
    name,
    attempt,
    mode: hold.mode ?? mode,
    ttl,
    token,
    ...(lockDelay > 0 && { lockDelay }),
    ...(note !== undefined && { note }),
  }
  return Buffer.from(JSON.stringify(ticket)).toString('base64url')
}

/** @throws BackendError while the store may still shorten the hold: the process that adopts it would not know */
function assertLasting({ driver }: Engine, { watchdog, name }: Hold, ttl: number): void {
  if (watchdog.mayShortenTo(ttl))
    throw new BackendError(
      driver.name,
      `${quote(name)} cannot be exported: an extend() to less than ${ttl} ms had no answer, and the store may still carry it out; release the lease and acquire it again`,
    )
}

/** @throws LeaseLostError when the ticket was adopted before or has expired; TypeError, UnsupportedError, BackendError */
export async function adoptLease(engine: Engine, text: string, options: AdoptOptions = {}): Promise<Lease> {
  checkPortable(engine)
  engine.assertOpen()
  checkOptions(options, ['maxHold'])
  const { id, name, attempt, mode, ttl, lockDelay = 0, token, note } = parseTicket(text)
  const terms = resolveTerms(engine.driver.name, engine.traits, engine.defaults, {
    ...options,
    ttl,
    lockDelay,
    ...(note !== undefined && { note }),
  })
  const cellRef = new CellRef(engine, 'hand', id)
  const mine = engine.env.id()
  const taken = await readOnce(engine, name, (bounds) =>
    cellRef.update((cell) => (cell?.value === exported ? { value: mine, keep: ttl } : undefined), bounds),
  )
  if (taken === undefined)
    throw new LeaseLostError(name, token, 'expired', new Error('the ticket has run out'))
  if (taken.value !== mine)
    throw new LeaseLostError(name, token, 'taken', new Error('the ticket was adopted before'))
  const claim = createClaim(name, attempt, mode, { ...terms, fair: false })
  const hold = await withTimeLimit(engine, name, (wait) => adoptGrant(engine, claim, token, terms, wait))
  if (hold === undefined) throw new LeaseLostError(name, token, 'expired')
  const lease = new HeldLease(hold, mode.kind)
  if (terms.leakWarning) engine.leaks?.watch(lease, engine.leaks.stack())
  return lease
}

/** A single attempt; the driver may try for as long as a single attempt may take. */
async function withTimeLimit<R>(engine: Engine, name: string, work: (wait: Wait) => Promise<R>): Promise<R> {
  const controller = new AbortController()
  const { signal } = controller
  const { clock, driver } = engine
  const from = clock.now()
  const limit = new TimeLimit(clock, maxAttempt, () => controller.abort()).armSoon()
  let trouble: BackendError | undefined
  const silent = () => unavailable(driver.name, name, clock.now() - from, trouble)
  try {
    const found = await work({
      signal,
      get ended() {
        return signal.aborted
      },
      remaining: () => 0,
      report: (by) => {
        trouble = by.error
      },
    })
    if (found === undefined && (signal.aborted || trouble !== undefined)) throw silent()
    return found
  } catch (error) {
    if (!(error instanceof BackendError) || error.code !== 'BACKEND') throw error
    trouble = error
    throw silent()
  } finally {
    limit.stop()
  }
}

function checkPortable({ driver }: Engine): void {
  if (driver.traits.portable === true) return
  throw new UnsupportedError(
    driver.name,
    'hand-over to another process',
    'a hold there ends with the process or session that took it',
  )
}

/** @throws TypeError */
function parseTicket(text: string): Ticket {
  try {
    const ticket = JSON.parse(Buffer.from(text, 'base64url').toString()) as Ticket
    checkName(ticket.name)
    if (
      ticket.v === 1 &&
      /^[0-9a-f]{31}[0-9a-fz]$/.test(ticket.attempt) &&
      Number.isSafeInteger(ticket.token)
    )
      return ticket
  } catch {
    // Reported below.
  }
  throw new TypeError(`adopt() takes the text that export() gave, got ${describe(text)}`)
}
