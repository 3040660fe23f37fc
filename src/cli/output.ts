/** Handles output that cannot be written. */
import { exits } from './exit.js'

/** A reader that closed the pipe, such as `head -1`, has what it wanted. Any other write error must not end in exit code 0. */
export function watchOutput(): void {
  let failure: NodeJS.ErrnoException | undefined
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') failure ??= error
  })
  process.stderr.on('error', () => undefined)
  process.once('exit', () => {
    if (failure === undefined) return
    process.exitCode = exits.output
    console.error(`holdfast: the standard output cannot be written: ${failure.message}`)
  })
}
