/**
 * Proves or refutes, from a recorded history of lock usage, that the locks kept their guarantees.
 *
 * ```ts
 * import { createLocks } from 'holdfast'
 * import { memory } from 'holdfast/memory'
 * import { check, memoryRecorder, printViolation, recordLocks } from 'holdfast/verify'
 *
 * const recorder = memoryRecorder()
 * const locks = recordLocks(createLocks(memory()), recorder)
 * await locks.mutex('seat:12A').run(() => undefined)
 * await locks.close()
 * for (const violation of check(recorder.history())) console.log(printViolation(violation))
 * ```
 * @module
 */
export { type CheckOptions, check } from './check.js'
export { type CommandsOptions, commands } from './checkers/commands.js'
export { exclusion } from './checkers/exclusion.js'
export { type FalseBusyOptions, falseBusy } from './checkers/false-busy.js'
export { type FifoOptions, fifo } from './checkers/fifo.js'
export { guard } from './checkers/guard.js'
export { leaks } from './checkers/leaks.js'
export { type LivenessOptions, liveness } from './checkers/liveness.js'
export { permits } from './checkers/permits.js'
export { readWrite } from './checkers/read-write.js'
export { tokens } from './checkers/tokens.js'
export { witness } from './checkers/witness.js'
export { type Entry, type Event, fatalFault, type ModeKind, type Op, type Phase } from './event.js'
export { type Acquisition, createHistory, type History } from './history.js'
export { type HoldInterval, intervalEnd, intervalsByName } from './intervals.js'
export {
  type MemoryRecorder,
  memoryRecorder,
  type Recorder,
  type RecorderOptions,
  readHistory,
  recorder,
} from './record.js'
export { recordLocks } from './recorded.js'
export { getAttempt } from './recorded-lease.js'
export { findStarvation, isLateByStarvation, type Starvation, watchStarvation } from './starvation.js'
export {
  type Band,
  type Bar,
  createTimeline,
  type Mark,
  type Row,
  type Timeline,
  type TimelineOptions,
  type TimelineSummary,
} from './timeline.js'
export { withSharedScale } from './timeline-arrange.js'
export { renderSvg, type SvgOptions } from './timeline-svg.js'
export { renderText, type TextOptions } from './timeline-text.js'
export { type AttemptHistory, printViolation, type Rule, type Violation } from './violation.js'
