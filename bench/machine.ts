/** The machine and versions of a measurement: figures are meaningless without them. */
import { readFileSync } from 'node:fs'
import { cpus, loadavg, release, type } from 'node:os'

export interface Machine {
  /** Date of the run, `2026-01-31`. */
  readonly date: string
  readonly runtime: string
  readonly system: string
  readonly processor: string
  readonly cores: number
  /** Average number of runnable tasks over the minute before the start: above 0.5 per core, the times are those of a busy machine. */
  readonly load: number
  /** Versions of holdfast and of everything it was measured with. */
  readonly versions: Readonly<Record<string, string>>
}

export function machine(versions: Readonly<Record<string, string>>): Machine {
  const [processor] = cpus()
  return {
    date: new Date().toISOString().slice(0, 10),
    runtime: `Node ${process.versions.node}`,
    // The suffix a distributor adds to its kernel version is irrelevant.
    system: `${type()} ${release().split('-')[0]}`,
    processor: processor?.model.trim() || 'unknown processor',
    cores: cpus().length,
    load: Math.round((loadavg()[0] ?? 0) * 100) / 100,
    versions: { holdfast: ownVersion(), ...versions },
  }
}

function ownVersion(): string {
  const url = new URL(import.meta.resolve('holdfast/package.json'))
  return (JSON.parse(readFileSync(url, 'utf8')) as { version: string }).version
}
