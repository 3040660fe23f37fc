/** Kysely: the condition on the fence is one more `where`, and no matched row means that a newer holder has written. */
import { assertFresh, type Fence } from 'holdfast/guard'
import type { Kysely } from 'kysely'

export interface Shop {
  invoices: { id: string; total: string | null; fence: number | null; version: number }
}

/** @throws StaleTokenError */
export async function save(db: Kysely<Shop>, id: string, total: string, lease: Fence): Promise<void> {
  lease.assertHeld?.()
  const result = await db
    .updateTable('invoices')
    .set({ total, fence: lease.token })
    .where('id', '=', id)
    .where((eb) => eb.or([eb('fence', 'is', null), eb('fence', '<=', lease.token)]))
    .executeTakeFirst()
  assertFresh(result.numUpdatedRows, lease)
}

/** The same by version, without a lock. Resolves with false when somebody else wrote since the row was read. */
export async function saveIfUnchanged(
  db: Kysely<Shop>,
  row: { id: string; version: number },
  total: string,
): Promise<boolean> {
  const result = await db
    .updateTable('invoices')
    .set((eb) => ({ total, version: eb('version', '+', 1) }))
    .where('id', '=', row.id)
    .where('version', '=', row.version)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}
