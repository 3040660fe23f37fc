/** How the command line ends. Codes of `sysexits.h` and of the shell where they fit, so that scripts can tell what happened. */

export const exits = {
  /** The answer is no: nothing was released, or the demo came out wrong. */
  failed: 1,
  /** An option, name, duration or URL that makes no sense, found before any I/O. */
  badInput: 64,
  /** The store cannot be used: it says nothing about who holds the lock. */
  unavailable: 69,
  /** A fault of holdfast itself. */
  internal: 70,
  /** The lock was not free within the wait; the command was not started. `--conflict-exit-code` changes it. */
  conflict: 75,
  /** The lease was lost while the command ran; the command was stopped. */
  lost: 76,
  /** The command ran longer than `--max-hold` and was stopped; the code of timeout(1). */
  maxHold: 124,
  /** The command is there but cannot be executed. */
  notExecutable: 126,
  /** There is no such command. */
  notFound: 127,
} as const

/** Ends the program with a message for people and a code for scripts. */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly exitCode: number
  constructor(exitCode: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.exitCode = exitCode
  }
}

/** `what` is wrong, and `remedy` helps. */
export function badInput(message: string): CliError {
  return new CliError(exits.badInput, message)
}

/** The code for an error of the library: bad arguments are the caller's, the rest is the store's or ours. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof CliError) return error.exitCode
  if (error instanceof TypeError || error instanceof RangeError) return exits.badInput
  const code = (error as { code?: unknown } | null)?.code
  if (code === 'UNSUPPORTED') return exits.badInput
  if (code === 'BACKEND' || code === 'CLOSED') return exits.unavailable
  return exits.internal
}
