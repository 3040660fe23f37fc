/**
 * The suite every driver passes. To test a driver of your own:
 *
 * ```ts
 * import { describe, it } from 'node:test'
 * import { conformance, inProcess } from 'holdfast/conformance'
 * import { memory } from 'holdfast/memory'
 *
 * const store = memory()
 * const traits = { modes: ['exclusive', 'shared', 'permits'], fair: true, minTtl: 10, shared: false, cells: true, portable: true } as const
 * conformance({ describe, it }, { name: 'memory', traits, ...inProcess(() => store) })
 * ```
 * @module
 */
export type { ChildClient, Faults, Fixture, Runner } from './fixture.js'
export { inProcess } from './in-process.js'
export type { PromiseCell, PromiseColumn } from './scenario/column.js'
export { promiseTable } from './scenario/table.js'
export { conformance } from './suite.js'
