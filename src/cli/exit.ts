/** Exit codes, from `sysexits.h` and the shell where they fit, so that scripts can tell outcomes apart. */

export const exits = {
  /** The answer is no: nothing was released, the demo came out wrong, or a store is not fit for locks. */
  failed: 1,
  /** `doctor --strict` found warnings but no problems. */
  warned: 2,
  /** An invalid option, name, duration or URL, found before any I/O. */
  badInput: 64,
  /** The store cannot be used; nothing is known about who holds the lock. */
  unavailable: 69,
  /** A bug in holdfast itself. */
  internal: 70,
  /** The output could not be written: the disk is full. */
  output: 74,
  /** The lock did not become free within the wait; the command was not started. `--conflict-exit-code` changes this code. */
  conflict: 75,
  /** The lease was lost while the command ran, and the command was stopped. */
  lost: 76,
  /** The command exceeded `--max-hold` and was stopped; the code of timeout(1). */
  maxHold: 124,
  /** The command exists but cannot be executed. */
  notExecutable: 126,
  /** Command not found. */
  notFound: 127,
} as const

/** Ends the program with a message for people and an exit code for scripts. */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly exitCode: number
  constructor(exitCode: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.exitCode = exitCode
  }
}

/** A client that still waits for a silent server must not keep the process alive after its last message. */
export function endSoon(): void {
  setTimeout(() => process.exit(), 300).unref()
}

/** @param message what is wrong, and the remedy */
export function badInput(message: string): CliError {
  return new CliError(exits.badInput, message)
}

/** Exit code for a library error: invalid arguments are the caller's fault, the rest is the store's or ours. */
export function toExitCode(error: unknown): number {
  if (error instanceof CliError) return error.exitCode
  if (error instanceof TypeError || error instanceof RangeError) return exits.badInput
  const code = (error as { code?: unknown } | null)?.code
  if (code === 'UNSUPPORTED') return exits.badInput
  if (code === 'BACKEND' || code === 'UNAVAILABLE' || code === 'CLOSED') return exits.unavailable
  return exits.internal
}
