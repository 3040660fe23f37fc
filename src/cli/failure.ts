/** Why a command failed, as `--json` prints it: `{"event":"failed","error":{…}}`. */
import { CliError, exits, toExitCode } from './exit.js'

export interface Failure {
  /** Of the library's error, like UNAVAILABLE; else the name of the exit code, like BAD_INPUT. */
  readonly code: string
  readonly message: string
  readonly exitCode: number
  /** The system's reason, like ECONNREFUSED, and the address it is about, where known. */
  readonly reason?: string
  readonly address?: string
}

/** The codes that tell more than the exit code they lead to. */
const libraryCodes = ['BACKEND', 'UNAVAILABLE', 'CLOSED', 'UNSUPPORTED']

export function toFailure(error: unknown, exitCode: number = toExitCode(error)): Failure {
  const found = chain(error)
  const first = (field: string, is: (value: string) => boolean = () => true) =>
    found.map((one) => one[field]).find((value): value is string => typeof value === 'string' && is(value))
  const [reason, address] = [first('reason'), first('address')]
  return {
    code: first('code', (code) => libraryCodes.includes(code)) ?? nameOf(exitCode),
    message: error instanceof Error ? error.message : String(error),
    exitCode,
    ...(reason !== undefined && { reason }),
    ...(address !== undefined && { address }),
  }
}

/** The error and its causes, as far as they are about the store. */
function chain(error: unknown): Readonly<Record<string, unknown>>[] {
  const found: Readonly<Record<string, unknown>>[] = []
  for (let one = error; one instanceof Error && found.length < 5; one = one.cause)
    found.push(one as unknown as Readonly<Record<string, unknown>>)
  return found
}

/** `BAD_INPUT` for 64. */
function nameOf(exitCode: number): string {
  const [name = 'internal'] = Object.entries(exits).find(([, code]) => code === exitCode) ?? []
  return name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()
}

/** For a failure that is known by its message only. */
export function failureOf(message: string, exitCode: number): Failure {
  return toFailure(new CliError(exitCode, message))
}
