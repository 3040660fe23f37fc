/** Duplicate order: the button is pressed twice, the message delivered twice. Everybody checks first, and nobody sees an order yet. */
import { admit } from 'holdfast/guard'
import { fenceOf, numberFrom, type Story, under } from './story.js'

export const orders: Story = {
  workers: 10,
  tables: [
    'create table orders (id int auto_increment primary key, request varchar(40) not null, host varchar(40) not null)',
  ],
  work: (host, mode, _, pause) =>
    under(host, mode, 'order:981', async (lease) => {
      if ((await numberFrom(host.db, 'select count(*) from orders where request = ?', '981')) > 0) return
      await pause()
      const fence = fenceOf(mode, lease)
      await host.transaction(async (tx) => {
        if (fence !== undefined) await admit(tx, fence)
        await tx.run('insert into orders (request, host) values (?, ?)', ['981', host.name])
      })
    }),
  /** Orders too many. */
  loss: async (db) => (await numberFrom(db, 'select count(*) from orders')) - 1,
}
