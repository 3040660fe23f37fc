/** Points redeemed while points are granted: both read the balance, both write what they computed, and one is lost. */
import { admit } from 'holdfast/guard'
import { fenceOf, numberFrom, type Story, under } from './story.js'

const start = 1000

export const points: Story = {
  workers: 20,
  tables: [
    'create table accounts (id int primary key, points int not null)',
    `insert into accounts values (42, ${start})`,
    'create table ledger (id int auto_increment primary key, account int not null, points int not null)',
  ],
  work: (host, mode, worker, pause) =>
    under(host, mode, 'account:42', async (lease) => {
      const change = worker % 2 === 0 ? -30 : 50
      const before = await numberFrom(host.db, 'select points from accounts where id = 42')
      await pause()
      const fence = fenceOf(mode, lease)
      await host.transaction(async (tx) => {
        if (fence !== undefined) await admit(tx, fence)
        await tx.run('update accounts set points = ? where id = 42', [before + change])
        await tx.run('insert into ledger (account, points) values (42, ?)', [change])
      })
    }),
  /** Points by which the balance differs from what the ledger says. */
  async loss(db) {
    const changes = await numberFrom(db, 'select coalesce(sum(points), 0) from ledger')
    return Math.abs(start + changes - (await numberFrom(db, 'select points from accounts where id = 42')))
  },
}
