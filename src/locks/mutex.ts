import { EngineLock, type Lock } from '../core/acquire.js'
import type { Engine } from '../core/engine.js'
import { exclusive } from '../core/mode.js'
import { checkName } from '../core/name.js'
import type { Defaults } from '../core/options.js'
import { noPermits } from './no-permits.js'

/** One holder at a time. */
export function mutex(engine: Engine, name: string, defaults?: Defaults): Lock {
  checkName(name)
  const terms = engine.resolveDefaults('mutex()', defaults)
  return new EngineLock(engine, name, 'exclusive', noPermits('a mutex', exclusive), terms)
}
