/** The shared file: balances, the orders applied so far, and the number of writes. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'

export interface Ledger {
  /** Number of writes so far. A ledger read at 7 is written as 8. */
  readonly revision: number
  readonly balances: Readonly<Record<string, number>>
  readonly applied: readonly string[]
}

export function readLedger(path: string): Ledger {
  return JSON.parse(readFileSync(path, 'utf8')) as Ledger
}

/** Atomic, so that a reader never sees half a file: without a lock, only the order of whole reads and writes goes wrong. */
export function writeLedger(path: string, ledger: Ledger): void {
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(ledger, undefined, 2)}\n`)
  renameSync(draft, path)
}
