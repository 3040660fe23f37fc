import { EngineLock, type Lock } from '../core/acquire.js'
import type { Engine } from '../core/engine.js'
import { exclusive, shared } from '../core/mode.js'
import { checkName } from '../core/name.js'
import type { Defaults } from '../core/options.js'
import { noPermits } from './no-permits.js'

/**
 * Many readers or one writer. Readers that come after a waiting writer wait behind it, so it is not starved.
 *
 * Downgrade: inside `write.run`, acquire `read`; it is granted at once, and when the writer's lease is released the
 * reader stays, with no other writer in between. The other way round throws `DeadlockError`.
 */
export interface ReadWriteLock {
  readonly name: string
  readonly read: Lock
  readonly write: Lock
}

export function readWrite(engine: Engine, name: string, defaults?: Defaults): ReadWriteLock {
  checkName(name)
  const terms = engine.resolveDefaults('readWrite()', defaults)
  return {
    name,
    read: new EngineLock(engine, name, 'shared', noPermits('a read/write lock', shared), terms),
    write: new EngineLock(engine, name, 'exclusive', noPermits('a read/write lock', exclusive), terms),
  }
}
