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

/** The time in which a stop has surely happened, in ms. */
const stopped = 50

/**
 * Stops this process, and calls `go` once when it is continued. On a terminal as TSTP does that nobody takes: in a group that no shell
 * looks after the kernel leaves it without effect, because nobody would continue it; then `go` comes at once.
 */
export function stopSelf(go: () => void): void {
  const takers = process.listeners('SIGTSTP')
  process.removeAllListeners('SIGTSTP')
  // A handler for TSTP is installed again only after the stop is over, by a timer that stands still with us.
  setTimeout(() => {
    for (const take of takers) process.on('SIGTSTP', take)
    go()
  }, stopped)
  process.kill(process.pid, process.stdin.isTTY ? 'SIGTSTP' : 'SIGSTOP')
}
