/** The shared file: balances, the orders applied so far, and how many times it was written. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'

export interface Ledger {
  /** Writes so far. One that was read at 7 is written as 8. */
  readonly revision: number
  readonly balances: Readonly<Record<string, number>>
  readonly applied: readonly string[]
}

export function readLedger(path: string): Ledger {
  return JSON.parse(readFileSync(path, 'utf8')) as Ledger
}

/** In one step, so that a reader never sees half a file: what goes wrong without a lock is only the order of whole reads and writes. */
export function writeLedger(path: string, ledger: Ledger): void {
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(ledger, undefined, 2)}\n`)
  renameSync(draft, path)
}
