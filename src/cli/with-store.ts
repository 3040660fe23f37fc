/** Opens a store for one use of it, and says what is wrong if it cannot be used. */
import { createLocks, type Locks } from 'holdfast'
import type { Connection, StoreTarget } from './connect.js'
import { explain } from './explain.js'
import { OtherServer, orOtherServer } from './other-server.js'

/**
 * @param use calls `answered` when the store has answered; a grant and a report of who holds the lock count without it
 * @throws CliError: the store cannot be used; any other error of the use as it is
 */
export async function withStore<R>(
  store: StoreTarget,
  use: (locks: Locks, answered: () => void) => Promise<R>,
): Promise<R> {
  const connection = await store.connect()
  const locks = createLocks(connection.driver)
  const answer = firstAnswer(locks)
  let reached = true
  try {
    return await orOtherServer(
      store,
      use(locks, () => answer.abort()),
      answer.signal,
    )
  } catch (error) {
    reached = !(error instanceof OtherServer)
    throw await explain(error, store, connection.lastError)
  } finally {
    const closed = close(locks, connection)
    // A client that never reached a store has nothing to release, and may retry for many seconds.
    if (reached) await closed
    else closed.catch(() => undefined)
  }
}

async function close(locks: Locks, connection: Connection): Promise<void> {
  await locks.close()
  await connection.close()
}

/** Aborts when the store has granted a lock or reported its holder. */
function firstAnswer(locks: Locks): AbortController {
  const answer = new AbortController()
  locks.on('granted', () => answer.abort())
  locks.on('waiting', ({ blocked }) => blocked.error === undefined && answer.abort())
  locks.on('denied', ({ why }) => why === 'busy' && answer.abort())
  return answer
}
