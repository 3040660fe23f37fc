// Two hundred clients that contend for twenty names, and a diary of who held what when.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Locks } from 'holdfast'

export interface Held {
  readonly name: string
  readonly token: number
  readonly note: string
  /** The client knew that it held, and was about to release; ms since 1970. */
  readonly from: number
  readonly to: number
}

/** @param locks as many processes as there are; every hold is granted by the store, since `fair` passes nothing on inside one */
export async function contend(
  locks: readonly Locks[],
  how: { readonly clients: number; readonly names: number; readonly signal: AbortSignal },
): Promise<Held[]> {
  const diary: Held[] = []
  const client = async (id: number): Promise<void> => {
    const own = locks[id % locks.length] as Locks
    const name = `account:${id % how.names}`
    const note = `client ${id}`
    for (let turn = 0; !how.signal.aborted; turn++) {
      const options = { fair: true, note, wait: 120_000, signal: how.signal }
      const lease = await own.mutex(name).acquire(options).catch(passedOver(how.signal))
      if (lease === undefined) return
      const from = Date.now()
      await sleep(200 + ((id * 37 + turn * 101) % 700))
      diary.push({ name, token: lease.token, note, from, to: Date.now() })
      await lease.release()
    }
  }
  await Promise.all(Array.from({ length: how.clients }, (_, id) => client(id)))
  return diary
}

/** The end of the wait is no error; anything else is. */
const passedOver = (signal: AbortSignal) => (error: unknown) => {
  if (!signal.aborted) throw error
  return undefined
}
