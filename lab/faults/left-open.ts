/** A lab that has come to its end ends its process, too, unless something was left open: then it says what. */
import { ChildProcess } from 'node:child_process'
import { Server, Socket } from 'node:net'

/** Sockets and processes that are on their way out need less, in ms. */
const patience = 20_000

/** To be called at the end of everything. What still keeps the process alive after a while is told, and an error. */
export function tellWhatIsLeft(): void {
  const late = () => {
    console.error(`faults: the process does not end; left open: ${whatIsLeft().join(', ')}`)
    process.exit(1)
  }
  setTimeout(late, patience).unref()
}

function whatIsLeft(): string[] {
  // Kinds for all, and more for those of which Node tells, though in no documented way.
  const { _getActiveHandles: handles } = process as { _getActiveHandles?: () => readonly object[] }
  return [...process.getActiveResourcesInfo(), ...(handles?.call(process) ?? []).map(shown)]
}

function shown(handle: object): string {
  if (handle instanceof ChildProcess)
    return `process ${handle.pid} (${handle.spawnfile}, ${handle.exitCode ?? handle.signalCode ?? 'running'})`
  if (handle instanceof Socket)
    return `socket ${handle.localPort} to ${handle.remotePort} (${handle.readyState})`
  if (handle instanceof Server) return `server at ${JSON.stringify(handle.address())}`
  return handle.constructor.name
}
