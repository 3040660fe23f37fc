/** The signals `holdfast run` takes and gives on. */
import { constants } from 'node:os'

/** Those that ask a process to end; while the lock is waited for they end the wait. */
export const ending = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const
const others = ['SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGCONT', 'SIGTSTP'] as const

export type Taken = (typeof ending)[number] | (typeof others)[number]

export function signalNumber(signal: NodeJS.Signals): number {
  return constants.signals[signal]
}

/** Calls `take` for each signal instead of what it would do; returns a function that puts that back. */
export function takeSignals(take: (signal: Taken) => void): () => void {
  const known = [...ending, ...others].filter((signal) => signal in constants.signals)
  for (const signal of known) process.on(signal, take)
  return () => {
    for (const signal of known) process.off(signal, take)
  }
}

export function endsWait(signal: Taken): boolean {
  return (ending as readonly string[]).includes(signal)
}
