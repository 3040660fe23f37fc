/** Cron on many hosts: every host fires; the report is sent once per host, or once if they coordinate. */
import { admit } from 'holdfast/guard'
import { fenceOf, type Host, numberFrom, type Story, under } from './story.js'

const slot = '2026-11-21 03:00'
const done = 'select count(*) from runs where slot = ?'
const record = 'insert into runs (slot, host) values (?, ?)'

export const cron: Story = {
  workers: 6,
  tables: [
    'create table runs (id int auto_increment primary key, slot varchar(20) not null, host varchar(40) not null)',
  ],
  work: (host, mode, _, pause) =>
    under(host, mode, 'cron:nightly', async (lease) => {
      // Without a lock nobody checks: cron on one host needed no check.
      if (mode !== 'bare' && (await numberFrom(host.db, done, slot)) > 0) return
      await pause()
      const fence = fenceOf(mode, lease)
      await host.transaction(async (tx) => {
        if (fence !== undefined) await admit(tx, fence)
        await tx.run(record, [slot, host.name])
      })
    }),
  /** Runs too many. */
  loss: async (db) => (await numberFrom(db, 'select count(*) from runs')) - 1,
}

/**
 * What most people write first: try the lock, skip when it is held. `late`: how far this host's clock is behind. A host whose clock
 * is behind by more than the job takes finds the lock free, and runs it again.
 */
export async function skipIfHeld(host: Host, late: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, late))
  const lease = await host.locks.mutex('cron:skip').tryAcquire()
  if (lease === undefined) return
  await host.db.run(record, [slot, host.name])
  await lease.release()
}
