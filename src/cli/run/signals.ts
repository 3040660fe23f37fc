/** The signals that `holdfast run` catches and forwards. */
import { constants } from 'node:os'

/** Signals that ask a process to end; while waiting for the lock they end the wait. */
export const ending = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const
const others = ['SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGCONT', 'SIGTSTP'] as const

export type ForwardedSignal = (typeof ending)[number] | (typeof others)[number]

export function signalNumber(signal: NodeJS.Signals): number {
  return constants.signals[signal]
}

/** Calls `take` for each signal instead of its default action; returns a function that restores the default. */
export function forwardSignals(take: (signal: ForwardedSignal) => void): () => void {
  const known = [...ending, ...others].filter((signal) => signal in constants.signals)
  for (const signal of known) process.on(signal, take)
  return () => {
    for (const signal of known) process.off(signal, take)
  }
}

export function endsWait(signal: ForwardedSignal): boolean {
  return (ending as readonly string[]).includes(signal)
}

/** A stop has surely happened within this time, in ms. */
const stopped = 50

/**
 * Stops this process, and calls `go` once when it is continued. On a terminal, uses TSTP with its default action: in an orphaned process
 * group the kernel ignores it, because no shell would continue the process; then `go` is called at once.
 */
export function stopSelf(go: () => void): void {
  const takers = process.listeners('SIGTSTP')
  process.removeAllListeners('SIGTSTP')
  // A timer, which stops with this process, restores the handler for TSTP only after the stop.
  setTimeout(() => {
    for (const take of takers) process.on('SIGTSTP', take)
    go()
  }, stopped)
  process.kill(process.pid, process.stdin.isTTY ? 'SIGTSTP' : 'SIGSTOP')
}
