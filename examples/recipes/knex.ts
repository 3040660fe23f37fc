/** Knex: the condition on the fence is one more `where`; `update` returns how many rows it matched. */
import { assertFresh, type Fence } from 'holdfast/guard'
import type { Knex } from 'knex'

/** @throws StaleTokenError */
export async function save(db: Knex, id: string, total: string, lease: Fence): Promise<void> {
  lease.assertHeld?.()
  const changed = await db('invoices')
    .where({ id })
    .andWhere((fence) => fence.whereNull('fence').orWhere('fence', '<=', lease.token))
    .update({ total, fence: lease.token })
  assertFresh(changed, lease)
}
