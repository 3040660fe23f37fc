/**
 * The inside of holdfast for the simulation of the lab, which has to own time and chance: users cannot, so no public entry point
 * has this.
 */
export type { Clock } from '../../src/core/clock.js'
export { Engine } from '../../src/core/engine.js'
export { locksOver } from '../../src/create-locks.js'
export * as table from '../../src/drivers/memory/table.js'
