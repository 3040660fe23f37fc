/** The scenario: one script for all drivers, which covers the promises of the contract. */
import * as having from './having.js'
import * as kinds from './kinds.js'
import * as losing from './losing.js'
import type { Chapter } from './story.js'
import * as waiting from './waiting.js'

export const chapters: readonly Chapter[] = [
  having.free,
  having.handOver,
  having.firstSecond,
  waiting.order,
  waiting.cancelled,
  having.extending,
  losing.expiry,
  losing.byForce,
  losing.crash,
  waiting.outage,
  having.tokens,
  losing.delay,
  kinds.reentrancy,
  kinds.readWrite,
  kinds.semaphore,
  kinds.several,
  kinds.inspecting,
  losing.closing,
  waiting.badInput,
  kinds.cells,
  kinds.moving,
]
