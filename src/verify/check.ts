/** Runs all checkers. */
import { type CommandsOptions, commands } from './checkers/commands.js'
import { exclusion } from './checkers/exclusion.js'
import { type FalseBusyOptions, falseBusy } from './checkers/false-busy.js'
import { type FifoOptions, fifo } from './checkers/fifo.js'
import { guard } from './checkers/guard.js'
import { leaks } from './checkers/leaks.js'
import { type LivenessOptions, liveness } from './checkers/liveness.js'
import { permits } from './checkers/permits.js'
import { readWrite } from './checkers/read-write.js'
import { tokens } from './checkers/tokens.js'
import { witness } from './checkers/witness.js'
import type { History } from './history.js'
import type { Violation } from './violation.js'

/** Checkers that need a bound run only if it is given; the others can be disabled with `false`. */
export interface CheckOptions {
  /** @default true */
  readonly guard?: boolean
  /** Disable it for a resource that is meant to lose updates without a guard. @default true */
  readonly witness?: boolean
  /** @default {} */
  readonly falseBusy?: FalseBusyOptions | false
  /** @default {} */
  readonly fifo?: FifoOptions | false
  readonly liveness?: LivenessOptions
  /** Disable it for a history that ends while the run goes on. @default true */
  readonly leaks?: boolean
  readonly commands?: CommandsOptions
}

/** Every violation of every rule, ordered by time. Empty: none. */
export function check(history: History, options: CheckOptions = {}): Violation[] {
  const found = [...exclusion(history), ...readWrite(history), ...permits(history), ...tokens(history)]
  const add = (more: readonly Violation[]) => {
    for (const one of more) found.push(one)
  }
  if (options.guard !== false) add(guard(history))
  if (options.witness !== false) add(witness(history))
  if (options.falseBusy !== false) add(falseBusy(history, options.falseBusy))
  if (options.fifo !== false) add(fifo(history, options.fifo))
  if (options.liveness !== undefined) add(liveness(history, options.liveness))
  if (options.leaks !== false) add(leaks(history))
  if (options.commands !== undefined) add(commands(history, options.commands))
  return found.sort((a, b) => a.at - b.at)
}
