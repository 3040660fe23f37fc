import { EngineLock, type Lock } from '../core/acquire.js'
import type { Engine } from '../core/engine.js'
import { exclusive } from '../core/mode.js'
import { checkName } from '../core/name.js'
import { noPermits } from './no-permits.js'

/** One holder at a time. */
export function mutex(engine: Engine, name: string): Lock {
  checkName(name)
  return new EngineLock(engine, name, 'exclusive', noPermits('a mutex', exclusive))
}
