/** Checks for the command before taking a lock, so that a typo does not cost a wait. */
import { isUtf8 } from 'node:buffer'
import { accessSync, constants, readFileSync, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { badInput, CliError, exits } from '../exit.js'
import { plain } from '../print.js'

/** @throws CliError with the shell's codes: 127 not found, 126 not executable. */
export function checkCommand(command: readonly string[], env: NodeJS.ProcessEnv): void {
  const [file] = command
  if (file === undefined || file === '')
    throw badInput("there is no command after '--'; give one: holdfast run deploy -- ./deploy.sh")
  if (file.startsWith('-'))
    throw badInput(`'${plain(file)}' after '--' is no command; options of holdfast go before '--'`)
  refuseChanged(command)
  // Windows appends extensions to names, and knows itself which.
  if (process.platform === 'win32') return
  const places = file.includes('/')
    ? [file]
    : (env.PATH ?? '/usr/local/bin:/usr/bin:/bin').split(delimiter).map((folder) => join(folder || '.', file))
  const found = places.map(statOrUndefined)
  if (found.includes('executable')) return
  if (!found.includes('there') && found.includes('directory'))
    throw new CliError(exits.notExecutable, `${plain(file)} is a directory; name a program in it`)
  if (found.includes('there'))
    throw new CliError(
      exits.notExecutable,
      `${plain(file)} is not executable; chmod +x it, or name its interpreter`,
    )
  throw new CliError(exits.notFound, `command not found: ${plain(file)}`)
}

function statOrUndefined(path: string): 'executable' | 'directory' | 'there' | 'absent' {
  try {
    const stat = statSync(path)
    if (stat.isDirectory()) return 'directory'
    if (!stat.isFile()) return 'there'
    accessSync(path, constants.X_OK)
    return 'executable'
  } catch (error) {
    return ['EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '') ? 'there' : 'absent'
  }
}

/** Node reads arguments as UTF-8 and would pass on other bytes as U+FFFD: another file could be removed. Without /proc nobody can tell. */
function refuseChanged(command: readonly string[]): void {
  if (process.platform !== 'linux' || !command.some((word) => word.includes('\ufffd'))) return
  const words = ownWords().slice(-command.length)
  const at = words.findIndex((word) => !isUtf8(Buffer.from(word, 'latin1')))
  if (at < 0) return
  const what = at === 0 ? 'the command' : `argument ${at} of the command`
  throw badInput(
    `${what} is not UTF-8, and would reach it changed; put the command into a script, and run that`,
  )
}

/** One character for each byte. */
function ownWords(): string[] {
  try {
    return readFileSync('/proc/self/cmdline', 'latin1').split('\0').slice(0, -1)
  } catch {
    return []
  }
}
