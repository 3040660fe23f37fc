/**
 * For authors of custom drivers: the contract and the small parts that drivers share.
 * @module
 */
export { type Cell, type CellChange, type Cells, maxCellBytes, maxKeyBytes } from '../../core/cell.js'
export type { Clock } from '../../core/clock.js'
export { deadline, maxClockDrift, safetyMargin } from '../../core/clock.js'
export type {
  Claim,
  Driver,
  DriverFactory,
  Env,
  Grant,
  Holder,
  LockStatus,
  ReleaseResult,
  Traits,
  Wait,
  Waiter,
  WaitStatus,
} from '../../core/driver.js'
export { BackendError, permitLimitError, UnsupportedError } from '../../core/errors.js'
export { LossNotice, type LossSignal } from '../../core/loss-notice.js'
export type { Mode, ModeKind } from '../../core/mode.js'
export { admits } from '../../core/mode.js'
export { checkName, quote } from '../../core/name.js'
export { nextToken, tokenReserve } from '../../core/token.js'
/** Queue and holds of one name as pure functions on plain data: see the pattern in examples/sqlite-driver. */
export * as table from '../memory/table.js'
