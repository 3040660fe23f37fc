/**
 * Locks that are part of a transaction, beside leases of the same names, or of names of their own where the two are unaware of each other. Such a lock ends with its connection, which a process cannot
 * observe; its only effect is what was committed. So a claim is recorded only after the reply to its commit, for the time until the commit
 * was sent.
 */
import type { Recorder } from 'holdfast/verify'
import type { Chance } from './chance.js'
import type { Client } from './store.js'
import type { Subject } from './workload.js'

let asked = 0

/** Runs them in sequence, on the names of plain mutexes, until it is over. */
export async function transactions(
  client: Pick<Client, 'transaction' | 'transactionsApart'>,
  journal: Recorder,
  subjects: readonly Subject[],
  ttl: number,
  random: Chance,
  over: () => boolean,
): Promise<void> {
  const own = client.transactionsApart === true ? ' in transactions' : ''
  const names = subjects.filter(({ kind }) => kind === 'mutex').map(({ name }) => `${name}${own}`)
  while (!over()) {
    await transaction(client, journal, random.pick(names), ttl, random)
    await new Promise((resolve) => setTimeout(resolve, random.between(0, 0.5) * ttl))
  }
}

async function transaction(
  client: Pick<Client, 'transaction'>,
  journal: Recorder,
  name: string,
  ttl: number,
  random: Chance,
): Promise<void> {
  const attempt = `${journal.client}:transaction:${++asked}`
  const about = { name, attempt, mode: 'exclusive' } as const
  const wait = Math.max(1, Math.round(random.between(0, 0.4) * ttl))
  const invoked = journal.now()
  const end = (kind: string) => {
    journal.write({ op: 'acquire', phase: 'invoke', ...about, wait }, invoked)
    journal.write({ op: 'acquire', phase: 'fail', ...about, kind })
  }
  try {
    const held = await client.transaction?.(name, wait)
    if (held === undefined) return end('busy')
    const granted = journal.now()
    await new Promise((resolve) => setTimeout(resolve, random.between(0, 0.2) * ttl))
    const leaving = journal.now()
    await held.commit()
    const { token } = held
    journal.write({ op: 'acquire', phase: 'invoke', ...about, wait }, invoked)
    journal.write({ op: 'acquire', phase: 'ok', ...about, token }, granted)
    journal.write({ op: 'release', phase: 'invoke', ...about, token }, leaving)
    journal.write({ op: 'release', phase: 'ok', ...about, token, kind: 'released' })
  } catch {
    // Rolled back, or unknown: either way it had no visible effect.
    end('no commit')
  }
}

/** @throws Error if `work` takes longer than a transaction of the lab may, in ms */
export async function within<T>(work: Promise<T>, ms = 3_000): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
