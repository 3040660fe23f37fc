/** A hundred workers sell a stock of sixty. Each looks whether something is left, and writes one less. */
import { guardedUpdate } from 'holdfast/guard'
import { fenceOf, numberFrom, type Story, under } from './story.js'

const start = 60

export const stock: Story = {
  workers: 100,
  tables: [
    'create table stock (id int primary key, pieces int not null, fence bigint)',
    `insert into stock (id, pieces) values (7, ${start})`,
    'create table sales (id int auto_increment primary key, host varchar(40) not null)',
  ],
  work: (host, mode, _, pause) =>
    under(host, mode, 'stock:7', async (lease) => {
      const left = await numberFrom(host.db, 'select pieces from stock where id = 7')
      if (left === 0) return
      await pause()
      const fence = fenceOf(mode, lease)
      await host.transaction(async (tx) => {
        if (fence === undefined) await tx.run('update stock set pieces = ? where id = 7', [left - 1])
        else await guardedUpdate(tx, { table: 'stock', key: { id: 7 }, set: { pieces: left - 1 }, fence })
        await tx.run('insert into sales (host) values (?)', [host.name])
      })
    }),
  /** Pieces sold that the stock does not know of. */
  async loss(db) {
    const left = await numberFrom(db, 'select pieces from stock where id = 7')
    return Math.abs(start - left - (await numberFrom(db, 'select count(*) from sales')))
  },
}
