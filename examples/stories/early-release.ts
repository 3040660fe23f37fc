/**
 * Released before the commit: the lock is inside the transaction, as when an annotation locks a method that is itself
 * transactional. Between release and commit the next holder reads data that are about to change. Here "without" is this wrong order;
 * the lock belongs around the transaction.
 */
import { admit, type Sql } from 'holdfast/guard'
import { fenceOf, numberFrom, type Story, under } from './story.js'

const start = 1000

async function spend(tx: Sql): Promise<void> {
  const before = await numberFrom(tx, 'select points from accounts where id = 42')
  await tx.run('update accounts set points = ? where id = 42', [before - 10])
  await tx.run('insert into ledger (account, points) values (42, -10)', [])
}

export const earlyRelease: Story = {
  workers: 12,
  tables: [
    'create table accounts (id int primary key, points int not null)',
    `insert into accounts values (42, ${start})`,
    'create table ledger (id int auto_increment primary key, account int not null, points int not null)',
  ],
  async work(host, mode, _, pause) {
    if (mode === 'bare') {
      await host.transaction(async (tx) => {
        await host.locks.mutex('account:42').run(() => spend(tx), { wait: 60_000 })
        await pause() // the lock is free again, and nothing is committed
      })
      return
    }
    await under(host, mode, 'account:42', async (lease) => {
      const before = await numberFrom(host.db, 'select points from accounts where id = 42')
      await pause()
      const fence = fenceOf(mode, lease)
      await host.transaction(async (tx) => {
        if (fence !== undefined) await admit(tx, fence)
        await tx.run('update accounts set points = ? where id = 42', [before - 10])
        await tx.run('insert into ledger (account, points) values (42, -10)', [])
      })
    })
  },
  /** Points by which the balance differs from what the ledger says. */
  async loss(db) {
    const changes = await numberFrom(db, 'select coalesce(sum(points), 0) from ledger')
    return Math.abs(start + changes - (await numberFrom(db, 'select points from accounts where id = 42')))
  },
}
